/* The threads that see tasks end for which nobody may be waiting: those whose future was asked for,
 * and those that were dropped. A group has one, from the first such task on; and another where what
 * a future's end has set off waits for a task in turn.
 *
 *     one thread    watches: waits for its oldest task, and looks at the others whenever that has
 *                   ended or LOOK_AGAIN has passed ── a task has ended ─▶ hands the watch over,
 *                   and tells those who asked
 *     the others    tell those who asked, or wait for the watch
 *
 * Operations end in the order of their start, so the oldest is nearly always the next. */
#pragma once

#include "work/task.h"

#include <deque>

namespace gyre_torch
{

class Completion : public std::enable_shared_from_this<Completion>
{
  public:
    /* Sees to it that a task is finished. */
    void add(std::shared_ptr<Task> task);

    /* Lets the threads end when their tasks have, and returns then. */
    void stop();

  private:
    void run();
    bool look(std::unique_lock<std::mutex> &hold);
    bool serve(const std::shared_ptr<Task> &task, std::chrono::milliseconds time);
    bool take_watch(std::unique_lock<std::mutex> &hold);
    void drop(const std::shared_ptr<Task> &task);
    void find_watcher();

    std::mutex lock_; /* of all below */
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Task>> tasks_;
    bool watching_ = false, stopping_ = false;
    int threads_ = 0, idle_ = 0;
};

} // namespace gyre_torch
