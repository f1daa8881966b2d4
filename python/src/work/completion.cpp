/* Tested by tests/program/torch/works.py. */
#include "work/completion.h"

#include <pthread.h>

#include <algorithm>
#include <thread>

namespace gyre_torch
{

static constexpr std::chrono::milliseconds LOOK_AGAIN{2}, AT_ONCE{0};

/* Has a thread watch, where there are tasks and nobody does. With the lock held. */
void Completion::find_watcher()
{
    if (tasks_.empty() || watching_ || idle_ > 0) {
        changed_.notify_all();
        return;
    }
    watching_ = true; /* for the thread that begins */
    threads_++;
    std::thread([self = shared_from_this()] { self->run(); }).detach();
}

void Completion::add(std::shared_ptr<Task> task)
{
    const std::lock_guard<std::mutex> hold(lock_);
    tasks_.push_back(std::move(task));
    find_watcher();
}

void Completion::stop()
{
    std::unique_lock<std::mutex> hold(lock_);
    stopping_ = true;
    changed_.notify_all();
    while (threads_ > 0)
        changed_.wait(hold);
}

void Completion::drop(const std::shared_ptr<Task> &task)
{
    tasks_.erase(std::remove(tasks_.begin(), tasks_.end(), task), tasks_.end());
}

/* Waits for a task for a time. False: it has ended, and another thread watches meanwhile. */
bool Completion::serve(const std::shared_ptr<Task> &task, std::chrono::milliseconds time)
{
    bool handed_over = false;
    const bool ended = task->wait(time, [&] {
        const std::lock_guard<std::mutex> hold(lock_);
        drop(task);
        handed_over = true;
        watching_ = false;
        find_watcher();
    });
    const std::lock_guard<std::mutex> hold(lock_);
    if (ended)
        drop(task);
    return !handed_over;
}

/* False: this thread watches no more. It lets go of tasks without the lock, because their tensors
 * may need Python's, which a thread may have that waits for this one. */
bool Completion::look(std::unique_lock<std::mutex> &hold)
{
    std::deque<std::shared_ptr<Task>> tasks = tasks_;
    bool watches = true;
    hold.unlock();
    for (size_t i = 0; watches && i < tasks.size(); i++)
        watches = serve(tasks[i], i == 0 ? LOOK_AGAIN : AT_ONCE);
    tasks.clear();
    hold.lock();
    return watches;
}

/* Waits until this thread is to watch. False: all is over. */
bool Completion::take_watch(std::unique_lock<std::mutex> &hold)
{
    idle_++;
    while (watching_ || (tasks_.empty() && !stopping_))
        changed_.wait(hold);
    idle_--;
    watching_ = !tasks_.empty();
    return watching_;
}

void Completion::run()
{
    pthread_setname_np(pthread_self(), "gyre-futures");
    std::unique_lock<std::mutex> hold(lock_);
    bool watches = true;
    while (watches) {
        if (!tasks_.empty())
            watches = look(hold);
        else
            watching_ = watches = false;
        if (!watches)
            watches = take_watch(hold);
    }
    threads_--;
    changed_.notify_all();
}

} // namespace gyre_torch
