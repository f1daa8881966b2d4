/* torch's Store as the meeting place of a communicator's ranks. */
#pragma once

#include <gyre/gyre.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace gyre_torch
{

/* Lends a store to gyre_init(). No exception passes through Gyre: what the store throws becomes
 * -EIO, and its words stay here. */
class MeetingPlace
{
  public:
    explicit MeetingPlace(c10::intrusive_ptr<c10d::Store> store);

    /* What gyre_options.store points to. It lives as long as this object. */
    const gyre_store *table() const
    {
        return &table_;
    }

    /* What the store threw last; "" if nothing. */
    const std::string &trouble() const
    {
        return trouble_;
    }

  private:
    template <typename Step> int guarded(Step step);
    int set(const char *key, const void *value, size_t bytes);
    int get(const char *key, void *value, size_t *bytes, int timeout_ms);
    int remove(const char *key);
    bool appears(const std::string &key, int timeout_ms);

    c10::intrusive_ptr<c10d::Store> store_;
    gyre_store table_;
    std::string trouble_;
};

} // namespace gyre_torch
