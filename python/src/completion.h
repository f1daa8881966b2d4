/* The thread that sees tasks end for which nobody may be waiting: those whose future was asked for,
 * and those that were dropped. A group has one, from the first such task on.
 *
 * It waits for its oldest task, and looks at the others whenever that has ended or LOOK_AGAIN has
 * passed. Operations end in the order of their start, so the oldest is nearly always the next. */
#pragma once

#include "task.h"

#include <deque>

namespace gyre_torch
{

class Completion : public std::enable_shared_from_this<Completion>
{
  public:
    /* Sees to it that a task is finished. */
    void add(std::shared_ptr<Task> task);

    /* Lets the thread end when its tasks have, and returns then. */
    void stop();

  private:
    void run();
    void look(std::deque<std::shared_ptr<Task>> &tasks);

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Task>> added_;
    bool running_ = false, stopping_ = false;
};

} // namespace gyre_torch
