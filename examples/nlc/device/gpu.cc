#include "nlc/device/gpu.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <string>
#include <string_view>

#include "nlc/device/kernels.h"

namespace nlc {
namespace {

using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;

cudaStream_t stream_of(Stream stream) { return static_cast<cudaStream_t>(stream); }

// Returns the loader's message if it cannot find the driver's library; the runtime gives no reason.
std::string driver_problem() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return dlerror();
  dlclose(driver);
  return "the driver is too old for this build's CUDA";
}

Status status_of(cudaError_t error, std::string_view doing) {
  // Reported here, so that the next launch does not report it again.
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  switch (error) {
    case cudaSuccess:
      return {};
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      return {StatusCode::kUnimplemented,
              fmt::format("{}: {}; install NVIDIA's driver, or train with --device cpu", doing,
                          driver_problem())};
    case cudaErrorNoDevice:
    case cudaErrorNoKernelImageForDevice:
      return {
          StatusCode::kUnimplemented,
          fmt::format("{}: {}; see what nvidia-smi lists and CUDA_VISIBLE_DEVICES leaves of it, "
                      "or train with --device cpu",
                      doing, cudaGetErrorString(error))};
    case cudaErrorMemoryAllocation:
      return {StatusCode::kExhausted,
              fmt::format("{}: {}; use fewer learners or a smaller mini-batch", doing,
                          cudaGetErrorString(error))};
    default:
      return {StatusCode::kInternal,
              fmt::format("{}: {} ({}); check the kernel's log for the GPU", doing,
                          cudaGetErrorName(error), cudaGetErrorString(error))};
  }
}

class CudaGpu final : public Gpu {
 public:
  Result<GpuMemory> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    FFDL_RETURN_IF_ERROR(status_of(cudaMalloc(&memory, bytes), "allocate memory of the GPU"));
    return GpuMemory(static_cast<std::byte*>(memory), [](std::byte* m) { cudaFree(m); });
  }
  Result<GpuMemory> allocate_pinned(std::size_t bytes) override {
    void* memory = nullptr;
    FFDL_RETURN_IF_ERROR(status_of(cudaMallocHost(&memory, bytes), "allocate pinned memory"));
    return GpuMemory(static_cast<std::byte*>(memory), [](std::byte* m) { cudaFreeHost(m); });
  }
  Result<OwnedStream> make_stream() override {
    cudaStream_t stream = nullptr;
    FFDL_RETURN_IF_ERROR(
        status_of(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream"));
    return OwnedStream(stream, [](Stream s) { cudaStreamDestroy(stream_of(s)); });
  }
  Status copy(void* to, const void* from, std::size_t bytes, Stream stream) override {
    return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)),
                     "copy a mini-batch");
  }
  Status wait(Stream stream) override {
    return status_of(cudaStreamSynchronize(stream_of(stream)), "wait for the GPU");
  }
  Status run(const SumRows& sum, Stream stream) override { return launched(sum, stream); }
  Status run(const TakeLoss& take, Stream stream) override { return launched(take, stream); }
  Status run(const SpreadRows& spread, Stream stream) override { return launched(spread, stream); }

 private:
  template <class Job>
  Status launched(const Job& job, Stream stream) {
    return status_of(launch(job, stream_of(stream)), "compute on the GPU");
  }
};

}  // namespace

Result<std::unique_ptr<Gpu>> open_gpu() {
  constexpr std::string_view kDoing = "find the GPU";
  int count = 0;
  FFDL_RETURN_IF_ERROR(status_of(cudaGetDeviceCount(&count), kDoing));
  if (count == 0) return status_of(cudaErrorNoDevice, kDoing);
  std::unique_ptr<Gpu> gpu = std::make_unique<CudaGpu>();
  return gpu;
}

}  // namespace nlc
