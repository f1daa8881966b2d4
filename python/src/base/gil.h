/* Gives up Python's lock for as long as it lives, if this thread has it: who waits for other
 * processes must let other threads run. */
#pragma once

#include <Python.h>

namespace gyre_torch
{

class WithoutGil
{
  public:
    WithoutGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr)
    {
    }
    ~WithoutGil()
    {
        if (state_)
            PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil &) = delete;
    WithoutGil &operator=(const WithoutGil &) = delete;

  private:
    PyThreadState *const state_;
};

} // namespace gyre_torch
