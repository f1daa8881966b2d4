/* Tested by tests/program/torch/works.py. */
#include "completion.h"

#include <pthread.h>

#include <algorithm>
#include <thread>

namespace gyre_torch
{

static constexpr std::chrono::milliseconds LOOK_AGAIN{2};

void Completion::add(std::shared_ptr<Task> task)
{
    const std::lock_guard<std::mutex> hold(lock_);
    added_.push_back(std::move(task));
    if (!running_)
        std::thread([self = shared_from_this()] { self->run(); }).detach();
    running_ = true;
    changed_.notify_all();
}

void Completion::stop()
{
    std::unique_lock<std::mutex> hold(lock_);
    stopping_ = true;
    changed_.notify_all();
    while (running_)
        changed_.wait(hold);
}

/* Waits for the oldest task for a moment, and drops all that have ended. */
void Completion::look(std::deque<std::shared_ptr<Task>> &tasks)
{
    tasks.front()->wait(LOOK_AGAIN);
    tasks.erase(std::remove_if(tasks.begin(), tasks.end(),
                               [](const std::shared_ptr<Task> &task) { return task->poll(); }),
                tasks.end());
}

void Completion::run()
{
    std::deque<std::shared_ptr<Task>> tasks;
    pthread_setname_np(pthread_self(), "gyre-futures");
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
        tasks.insert(tasks.end(), added_.begin(), added_.end());
        added_.clear();
        if (tasks.empty() && stopping_)
            break;
        if (tasks.empty()) {
            changed_.wait(hold);
            continue;
        }
        hold.unlock();
        look(tasks);
        hold.lock();
    }
    running_ = false;
    changed_.notify_all();
}

} // namespace gyre_torch
