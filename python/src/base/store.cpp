/* Tested by tests/program/torch/groups.py. */
#include "base/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace gyre_torch
{

static MeetingPlace *place(void *context);

MeetingPlace::MeetingPlace(c10::intrusive_ptr<c10d::Store> store)
    : store_(std::move(store)), table_{}
{
    table_.size = sizeof table_;
    table_.context = this;
    table_.set = [](void *context, const char *key, const void *value, size_t bytes) {
        return place(context)->set(key, value, bytes);
    };
    table_.get = [](void *context, const char *key, void *value, size_t *bytes, int timeout_ms) {
        return place(context)->get(key, value, bytes, timeout_ms);
    };
    table_.remove = [](void *context, const char *key) { return place(context)->remove(key); };
}

static MeetingPlace *place(void *context)
{
    return static_cast<MeetingPlace *>(context);
}

template <typename Step> int MeetingPlace::guarded(Step step)
{
    try {
        return step();
    } catch (const std::exception &exception) {
        trouble_ = exception.what();
        return -EIO;
    }
}

int MeetingPlace::set(const char *key, const void *value, size_t bytes)
{
    const auto *first = static_cast<const uint8_t *>(value);
    return guarded([&] {
        store_->set(key, std::vector<uint8_t>(first, first + bytes));
        return 0;
    });
}

/* Whether there is a value within the time. Looks at growing intervals of 1 to 16 ms, because a
 * store that waits lets no other thread of the process use its connection meanwhile. */
bool MeetingPlace::appears(const std::string &key, int timeout_ms)
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    for (int pause = 1; !store_->check({key}); pause = std::min(2 * pause, 16)) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
    return true;
}

int MeetingPlace::get(const char *key, void *value, size_t *bytes, int timeout_ms)
{
    return guarded([&]() -> int {
        if (!appears(key, timeout_ms))
            return GYRE_AGAIN;
        const std::vector<uint8_t> found = store_->get(key);
        std::memcpy(value, found.data(), std::min(found.size(), *bytes));
        *bytes = found.size(); /* a length beyond the room is told by Gyre */
        return 0;
    });
}

int MeetingPlace::remove(const char *key)
{
    return guarded([&] {
        store_->deleteKey(key);
        return 0;
    });
}

} // namespace gyre_torch
