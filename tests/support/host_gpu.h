#pragma once

#include <cstring>
#include <memory>

#include "nlc/device/gpu.h"
#include "support/host_device.h"

namespace nlc {

// A GPU in the host's memory. Its streams are threads that do their work later, in order. New
// memory is full of NaN. A kernel runs all of its threads, the last one first.
class HostGpu final : public Gpu {
 public:
  ffdl::Result<GpuMemory> allocate(std::size_t bytes) override {
    auto memory = std::make_unique<std::byte[]>(bytes);
    std::memset(memory.get(), 0xFF, bytes);
    return GpuMemory(memory.release(),
                     [](std::byte* freed) { const std::unique_ptr<std::byte[]> last(freed); });
  }
  ffdl::Result<GpuMemory> allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  ffdl::Result<OwnedStream> make_stream() override {
    return ffdl::testing::HostDevice().make_stream();
  }
  ffdl::Status copy(void* to, const void* from, std::size_t bytes, Stream stream) override {
    enqueue(stream, [=] { std::memmove(to, from, bytes); });
    return {};
  }
  ffdl::Status wait(Stream stream) override {
    static_cast<ffdl::testing::ThreadStream*>(stream)->wait();
    return {};
  }
  ffdl::Status run(const SumRows& sum, Stream stream) override { return run_all(sum, stream); }
  ffdl::Status run(const TakeLoss& take, Stream stream) override { return run_all(take, stream); }
  ffdl::Status run(const SpreadRows& spread, Stream stream) override {
    return run_all(spread, stream);
  }

 private:
  static constexpr uint64_t kThreads = 37;

  static void enqueue(Stream stream, std::function<void()> work) {
    static_cast<ffdl::testing::ThreadStream*>(stream)->enqueue(std::move(work));
  }
  template <class Job>
  static ffdl::Status run_all(const Job& job, Stream stream) {
    enqueue(stream, [job] {
      for (uint64_t thread = kThreads; thread-- > 0;) run_thread(job, thread, kThreads);
    });
    return {};
  }
};

}  // namespace nlc
