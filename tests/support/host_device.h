#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include "base/device_side.h"
#include "support/array_threads.h"
#include "support/host_stream.h"

// A device in the host's memory. Its streams are threads: they do their work later, in order.
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
      queue_.pop_front();  // now the work is done
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable done_;
  std::deque<std::function<void()>> queue_;  // the first one runs
  std::thread thread_;
};

// The memory that this process has pinned, on any device.
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
    static_cast<void>(*static_cast<const volatile char*>(pages));  // checks that the memory exists
    const std::lock_guard lock(mutex_);
    pins_.erase(reinterpret_cast<uintptr_t>(pages));
  }
  uint64_t bytes() {
    const std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const auto& [begin, size] : pins_) sum += size;
    return sum;
  }
  bool holds(std::span<const std::byte> memory) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    const std::lock_guard lock(mutex_);
    const auto after = pins_.upper_bound(begin);
    if (after == pins_.begin()) return false;
    const auto& [pinned, size] = *std::prev(after);
    return begin + memory.size() <= pinned + size;
  }
  static HostPins& of_this_process() {
    static HostPins pins;
    return pins;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uint64_t> pins_;
};

// A file without a name, in place of a device's memory that processes share. Each process has it at
// an address of its own. The ranks of one process may share one address, so that ThreadSanitizer
// sees all their accesses.
class SharedPages {
 public:
  static Result<base::SideMemory> map(int file, uint64_t bytes, bool once) {
    struct stat found = {};
    if (fstat(file, &found) != 0) return Status(StatusCode::kInternal, "map: no descriptor");
    if (static_cast<uint64_t>(found.st_size) != bytes) {
      return Status(StatusCode::kInternal, "map: it has another size");
    }
    std::shared_ptr<std::byte> pages;
    const std::lock_guard lock(all().mutex);
    std::weak_ptr<std::byte>& known = all().pages[found.st_ino];
    if (once) pages = known.lock();
    if (pages == nullptr) {
      void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (at == MAP_FAILED) return Status(StatusCode::kExhausted, "map: no memory");
      pages = {static_cast<std::byte*>(at), [bytes](std::byte* gone) { munmap(gone, bytes); }};
      known = pages;
    }
    return base::SideMemory(pages.get(), [pages](std::byte*) {});
  }

 private:
  struct All {
    std::mutex mutex;
    std::map<ino_t, std::weak_ptr<std::byte>> pages;
  };
  static All& all() {
    static All instance;
    return instance;
  }
};

class HostDevice : public base::DeviceSide {
 public:
  // Maps shared memory at one address in this process.
  void map_once() { maps_once_ = true; }
  // Excludes this memory from the device's, which is all other memory.
  void keep_on_host(const void* memory) { on_host_.insert(memory); }
  int followed() const { return followed_.load(); }

  Result<int> in_use() override { return 0; }
  Status use(int) override { return {}; }
  Result<bool> is_used(int) override { return true; }
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
  // The default stream has no work here.
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
    if (stream != nullptr) static_cast<ThreadStream*>(stream)->wait();
    return {};
  }
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    give(stream, [=] { std::memmove(to, from, bytes); });
    return {};
  }
  Status run(const base::ArrayWork& work, base::DeviceStream stream) override {
    FFDL_RETURN_IF_ERROR(base::check_array_work(work));
    give(stream, [work = reached(work, reach())] { run_all_threads(work, kKernelThreads); });
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
  Result<base::SideMemory> allocate_pinned(uint64_t bytes) override {
    return HostDevice::allocate(bytes);
  }
  Result<base::ShareableSideMemory> allocate_shareable(uint64_t bytes) override {
    constexpr uint64_t kUnit = uint64_t{64} << 10;  // a GPU's is larger
    base::ShareableSideMemory made;
    made.bytes = (bytes + kUnit - 1) / kUnit * kUnit;
    made.descriptor = base::ForkPrivateFd(memfd_create("device", MFD_CLOEXEC));
    const int file = made.descriptor.get();
    if (file < 0 || ftruncate(file, static_cast<off_t>(made.bytes)) != 0) {
      return Status(StatusCode::kExhausted, "allocate: no memory");
    }
    FFDL_ASSIGN_OR_RETURN(made.memory, map_shareable(file, made.bytes));
    return made;
  }
  Result<base::SideMemory> map_shareable(int descriptor, uint64_t bytes) override {
    return SharedPages::map(descriptor, bytes, maps_once_);
  }

 protected:
  using Reach = void* (*)(const void* memory);
  // Returns the function that maps the arguments of kernels to their addresses.
  virtual Reach reach() const {
    return [](const void* memory) { return const_cast<void*>(memory); };
  }
  // Does the work of the default stream at once.
  virtual void give(base::DeviceStream stream, std::function<void()> work) {
    if (stream == nullptr) return work();
    static_cast<ThreadStream*>(stream)->enqueue(std::move(work));
  }

 private:
  static constexpr uint64_t kKernelThreads = 7;

  std::set<const void*> on_host_;
  std::atomic<int> followed_ = 0;
  bool maps_once_ = false;
};

}  // namespace ffdl::testing
