#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/device_side.h"
#include "support/host_stream.h"

// A device whose memory is the host's, and whose streams are threads: what is given to one is done
// later, in order.
namespace ffdl::testing {

class ThreadStream final : public HostStream {
 public:
  ThreadStream() : thread_([this] { serve(); }) {}
  ~ThreadStream() override {
    enqueue(nullptr);
    thread_.join();
  }
  void enqueue(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return queue_.empty();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return queue_.empty(); });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !queue_.empty(); });
      const std::function<void()> work = queue_.front();
      if (!work) return;
      lock.unlock();
      work();
      lock.lock();
      queue_.pop_front();  // now it is done
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable done_;
  std::deque<std::function<void()>> queue_;  // the first one runs
  std::thread thread_;
};

// What this process has pinned, on whichever device.
class HostPins {
 public:
  bool add(const void* pages, uint64_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(pages);
    const std::lock_guard lock(mutex_);
    for (const auto& [other, size] : pins_) {
      if (begin < other + size && other < begin + bytes) return false;
    }
    return pins_.emplace(begin, bytes).second;
  }
  void remove(const void* pages) {
    static_cast<void>(*static_cast<const volatile char*>(pages));  // the memory is still there
    const std::lock_guard lock(mutex_);
    pins_.erase(reinterpret_cast<uintptr_t>(pages));
  }
  uint64_t bytes() {
    const std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const auto& [begin, size] : pins_) sum += size;
    return sum;
  }
  static HostPins& of_this_process() {
    static HostPins pins;
    return pins;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uint64_t> pins_;
};

class HostDevice : public base::DeviceSide {
 public:
  // All memory is the device's but this.
  void keep_on_host(const void* memory) { on_host_.insert(memory); }
  int followed() const { return followed_.load(); }

  Result<int> in_use() override { return 0; }
  Status use(int) override { return {}; }
  Result<bool> holds(const void* memory) override { return !on_host_.contains(memory); }
  Result<base::SideStream> make_stream() override {
    return base::SideStream(std::make_unique<ThreadStream>().release(), [](void* stream) {
      const std::unique_ptr<ThreadStream> ended(static_cast<ThreadStream*>(stream));
    });
  }
  Status follow_default(base::DeviceStream) override {
    ++followed_;
    return {};
  }
  // The default stream has nothing to do here.
  Status follow(base::DeviceStream stream, base::DeviceStream leader) override {
    if (leader == nullptr) return {};
    const auto reached = std::make_shared<std::latch>(1);
    static_cast<ThreadStream*>(leader)->enqueue([reached] { reached->count_down(); });
    static_cast<ThreadStream*>(stream)->enqueue([reached] { reached->wait(); });
    return {};
  }
  Result<bool> is_done(base::DeviceStream stream) override {
    return static_cast<ThreadStream*>(stream)->is_done();
  }
  Status wait(base::DeviceStream stream) override {
    static_cast<ThreadStream*>(stream)->wait();
    return {};
  }
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    static_cast<ThreadStream*>(stream)->enqueue([=] { std::memmove(to, from, bytes); });
    return {};
  }
  Result<base::SidePin> pin(void* pages, uint64_t bytes) override {
    constexpr uint64_t kPage = 4096;
    if (reinterpret_cast<uintptr_t>(pages) % kPage != 0 || bytes % kPage != 0) {
      return Status(StatusCode::kInvalidArgument, "pin pages: these are not whole ones");
    }
    if (!HostPins::of_this_process().add(pages, bytes)) {
      return Status(StatusCode::kConflict, "pin pages: they are pinned already");
    }
    return base::SidePin(pages, [](void* pinned) { HostPins::of_this_process().remove(pinned); });
  }
  Result<base::SideMemory> allocate(uint64_t bytes) override {
    return base::SideMemory(std::make_unique<std::byte[]>(bytes).release(), [](std::byte* memory) {
      const std::unique_ptr<std::byte[]> freed(memory);
    });
  }
  Result<base::SideMemory> allocate_pinned(uint64_t bytes) override { return allocate(bytes); }

 private:
  std::set<const void*> on_host_;
  std::atomic<int> followed_ = 0;
};

}  // namespace ffdl::testing
