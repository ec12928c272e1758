#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "support/host_device.h"

// Memory of a device that the processor cannot touch: every address of it faults. The same memory
// has other addresses that only the device's own work uses.
namespace ffdl::testing {

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("device", MFD_CLOEXEC);
    FFDL_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0, "no memory");
    guarded_ = map(file, PROT_NONE);
    reached_ = map(file, PROT_READ | PROT_WRITE);
    close(file);
    const std::lock_guard lock(all().mutex);
    all().places[guarded_] = this;
  }
  ~GuardedMemory() {
    {
      const std::lock_guard lock(all().mutex);
      all().places.erase(guarded_);
    }
    munmap(guarded_, bytes_);
    munmap(reached_, bytes_);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return guarded_; }

  // Returns the device's address of the memory; null if it is the host's.
  static void* find(const void* memory) {
    const auto* at = static_cast<const std::byte*>(memory);
    const std::lock_guard lock(all().mutex);
    auto place = all().places.upper_bound(const_cast<std::byte*>(at));
    if (place == all().places.begin()) return nullptr;
    --place;
    const auto offset = static_cast<size_t>(at - place->first);
    return offset < place->second->bytes_ ? place->second->reached_ + offset : nullptr;
  }
  // Returns the address at which the device reaches any memory.
  static void* reach(const void* memory) {
    void* const found = find(memory);
    return found != nullptr ? found : const_cast<void*>(memory);
  }

 private:
  struct All {
    std::mutex mutex;
    std::map<std::byte*, GuardedMemory*> places;
  };
  static All& all() {
    static All instance;
    return instance;
  }
  std::byte* map(int file, int protection) const {
    void* const mapped = mmap(nullptr, bytes_, protection, MAP_SHARED, file, 0);
    FFDL_CHECK(mapped != MAP_FAILED, "no memory");
    return static_cast<std::byte*>(mapped);
  }

  const size_t bytes_;
  std::byte* guarded_ = nullptr;
  std::byte* reached_ = nullptr;
};

// The default stream of a program, as late as possible. It does its work only when another stream
// follows it or a thread waits for it. A stream that does not follow reads the old data.
class LateStream {
 public:
  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++given_;
  }
  uint64_t given() {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  // Does the first `number` pieces of all work.
  void do_until(uint64_t number) {
    const std::lock_guard one_at_a_time(doing_);
    while (true) {
      std::function<void()> work;
      {
        const std::lock_guard lock(mutex_);
        if (done_ >= number) return;
        work = std::move(queue_.front());
        queue_.pop_front();
        ++done_;
      }
      work();
    }
  }
  void wait() { do_until(given()); }

 private:
  std::mutex doing_;
  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
  uint64_t given_ = 0;
  uint64_t done_ = 0;
};

// A device with GuardedMemory. Each user of the device has one of these; they share the default
// stream.
class GuardedDevice final : public HostDevice {
 public:
  explicit GuardedDevice(std::shared_ptr<LateStream> default_stream)
      : default_stream_(std::move(default_stream)) {}

  Result<bool> holds(const void* memory) override { return GuardedMemory::find(memory) != nullptr; }
  Status follow_default(base::DeviceStream stream) override {
    static_cast<ThreadStream*>(stream)->enqueue(
        [late = default_stream_, number = default_stream_->given()] { late->do_until(number); });
    return HostDevice::follow_default(stream);
  }
  Status wait(base::DeviceStream stream) override {
    if (stream == nullptr) default_stream_->wait();
    return HostDevice::wait(stream);
  }
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    return HostDevice::copy(GuardedMemory::reach(to), GuardedMemory::reach(from), bytes, stream);
  }
  // Frees the memory after all earlier work of the device, as CUDA does.
  Result<base::SideMemory> allocate(uint64_t bytes) override {
    auto held = std::make_shared<GuardedMemory>(bytes);
    std::byte* const memory = held->data();
    std::memset(GuardedMemory::reach(memory), 0xA5, bytes);  // any value
    const auto free = [held = std::move(held), late = default_stream_](std::byte*) mutable {
      late->wait();
      held.reset();
    };
    return base::SideMemory(memory, free);
  }

 protected:
  Reach reach() const override { return &GuardedMemory::reach; }
  void give(base::DeviceStream stream, std::function<void()> work) override {
    if (stream != nullptr) return HostDevice::give(stream, std::move(work));
    default_stream_->give(std::move(work));
  }

 private:
  const std::shared_ptr<LateStream> default_stream_;
};

}  // namespace ffdl::testing
