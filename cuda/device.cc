#include "base/device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>

#include "base/device_error.h"
#include "base/errors.h"
#include "cuda/driver.h"
#include "cuda/failure.h"

namespace ffdl {
namespace {

cudaStream_t stream_of(base::DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

// Returns the loader's message if it does not find the driver's library. The runtime loads the
// library in the same way, but reports no reason.
std::string missing_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return dlerror();
  dlclose(driver);
  return {};
}

// Clears an error of a releasing call, which cannot fail for its caller. The next launch must not
// find it.
void forget(cudaError_t error) {
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
}

Status follow(cudaStream_t stream, cudaStream_t leader, std::string_view doing) {
  cudaEvent_t event = nullptr;
  FFDL_RETURN_IF_ERROR(
      cuda::status_of(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), doing));
  cudaError_t error = cudaEventRecord(event, leader);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(stream, event, 0);
  forget(cudaEventDestroy(event));  // CUDA keeps it until it has occurred
  return cuda::status_of(error, doing);
}

}  // namespace

namespace cuda {

Status status_of(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // reported here, not by the next launch
  base::DeviceFailure failure{.error = static_cast<int>(error),
                              .name = cudaGetErrorName(error),
                              .text = cudaGetErrorString(error)};
  if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary) {
    failure.driver_missing = missing_driver();
  }
  cudaDriverGetVersion(&failure.driver_version);
  cudaRuntimeGetVersion(&failure.runtime_version);
  return base::device_error(doing, failure);
}

Result<uint32_t> multiprocessor_count(std::string_view doing) {
  int device = 0;
  FFDL_RETURN_IF_ERROR(status_of(cudaGetDevice(&device), doing));
  int count = 0;
  FFDL_RETURN_IF_ERROR(
      status_of(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), doing));
  return static_cast<uint32_t>(count);
}

}  // namespace cuda

namespace base {

Result<DeviceFacts> find_device() {
  constexpr std::string_view kDoing = "find the GPU";
  int device = 0;
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaGetDevice(&device), kDoing));
  cudaDeviceProp properties{};
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaGetDeviceProperties(&properties, device), kDoing));
  DeviceFacts facts{.name = properties.name,
                    .major = properties.major,
                    .minor = properties.minor,
                    .multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount),
                    .memory_bytes = properties.totalGlobalMem};
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaDriverGetVersion(&facts.driver_version), kDoing));
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaRuntimeGetVersion(&facts.runtime_version), kDoing));
  return facts;
}

Result<int> device_in_use() {
  int device = 0;
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaGetDevice(&device), "find the GPU in use"));
  return device;
}

Status use_device(int device) { return cuda::status_of(cudaSetDevice(device), "choose a GPU"); }

Result<bool> is_device_used(int device) {
  constexpr std::string_view kDoing = "check whether a GPU is in use";
  decltype(&::cuDevicePrimaryCtxGetState) get_state = nullptr;
  FFDL_RETURN_IF_ERROR(cuda::find_in_driver("cuDevicePrimaryCtxGetState", get_state, kDoing));
  unsigned int flags = 0;
  int is_active = 0;
  if (const CUresult result = get_state(device, &flags, &is_active); result != CUDA_SUCCESS) {
    return device_error(kDoing, {.error = static_cast<int>(result)});
  }
  return is_active != 0;
}

Result<bool> is_device_memory(const void* memory) {
  cudaPointerAttributes found{};
  FFDL_RETURN_IF_ERROR(
      cuda::status_of(cudaPointerGetAttributes(&found, memory), "find the memory of a pointer"));
  return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
}

void FreeDeviceMemory::operator()(std::byte* memory) const { forget(cudaFree(memory)); }

Result<DeviceMemory> allocate_on_device(uint64_t bytes) {
  void* memory = nullptr;
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaMalloc(&memory, bytes), "allocate on the device"));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

void FreePinnedMemory::operator()(std::byte* memory) const { forget(cudaFreeHost(memory)); }

Result<PinnedMemory> allocate_pinned(uint64_t bytes) {
  void* memory = nullptr;
  FFDL_RETURN_IF_ERROR(
      cuda::status_of(cudaMallocHost(&memory, bytes), "allocate pinned memory of the host"));
  return PinnedMemory(static_cast<std::byte*>(memory));
}

namespace {

constexpr std::string_view kCopy = "copy on the device";

// Returns how many of the `bytes` from `memory` on belong to one allocation or one pin. Returns all
// if the memory belongs to neither.
uint64_t bytes_in_one(decltype(&::cuPointerGetAttributes) get, const void* memory, uint64_t bytes) {
  CUdeviceptr begin = 0;
  size_t size = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* told[] = {&begin, &size};
  const auto at = reinterpret_cast<CUdeviceptr>(memory);
  if (get(2, asked, told, at) != CUDA_SUCCESS || at < begin || at - begin >= size) return bytes;
  return std::min<uint64_t>(bytes, size - (at - begin));
}

Status copy_by_allocations(std::byte* to, const std::byte* from, uint64_t bytes,
                           cudaStream_t stream) {
  decltype(&::cuPointerGetAttributes) get = nullptr;
  FFDL_RETURN_IF_ERROR(cuda::find_in_driver("cuPointerGetAttributes", get, kCopy));
  while (bytes > 0) {
    const uint64_t part = std::min(bytes_in_one(get, to, bytes), bytes_in_one(get, from, bytes));
    FFDL_RETURN_IF_ERROR(
        cuda::status_of(cudaMemcpyAsync(to, from, part, cudaMemcpyDefault, stream), kCopy));
    to += part;
    from += part;
    bytes -= part;
  }
  return {};
}

}  // namespace

// Copies ranges that may span several allocations. Neighbouring gradients are one array to their
// readers. CUDA copies nothing across the borders of allocations (cudaErrorInvalidValue).
Status copy_on_device(void* to, const void* from, uint64_t bytes, DeviceStream stream) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream));
  if (error != cudaErrorInvalidValue) return cuda::status_of(error, kCopy);
  forget(error);
  return copy_by_allocations(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
                             bytes, stream_of(stream));
}

// Waits for an event, since cudaStreamSynchronize alone would keep a core busy. After the event it
// has nothing to wait for. If CUDA has no room for an event, it waits itself.
Status wait_for_device(DeviceStream stream) {
  cudaEvent_t event = nullptr;
  cudaError_t error =
      cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming);
  if (error == cudaSuccess) error = cudaEventRecord(event, stream_of(stream));
  if (error == cudaSuccess) error = cudaEventSynchronize(event);
  if (event != nullptr) forget(cudaEventDestroy(event));
  forget(error);  // reported below if it persists
  return cuda::status_of(cudaStreamSynchronize(stream_of(stream)), "wait for the device");
}

Result<bool> device_is_done(DeviceStream stream) {
  const cudaError_t error = cudaStreamQuery(stream_of(stream));
  if (error == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // no failure: the next launch must not find one
    return false;
  }
  FFDL_RETURN_IF_ERROR(cuda::status_of(error, "check whether the device is done"));
  return true;
}

void EndDeviceStream::operator()(void* stream) const {
  forget(cudaStreamDestroy(stream_of(stream)));
}

Result<OwnedDeviceStream> make_device_stream() {
  cudaStream_t stream = nullptr;
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                       "make a stream of the device"));
  return OwnedDeviceStream(stream);
}

Status follow_default_stream(DeviceStream stream) {
  return follow(stream_of(stream), cudaStreamLegacy, "follow the default stream");
}

Status follow_stream(DeviceStream stream, DeviceStream leader) {
  return follow(stream_of(stream), stream_of(leader), "follow a stream");
}

void UnpinPages::operator()(void* pages) const { forget(cudaHostUnregister(pages)); }

Result<PinnedPages> pin_pages(void* pages, uint64_t bytes) {
  constexpr std::string_view kDoing = "pin pages";
  const cudaError_t error = cudaHostRegister(pages, bytes, cudaHostRegisterPortable);
  if (error == cudaErrorMemoryAllocation) {  // device_error() would blame the GPU's memory
    static_cast<void>(cudaGetLastError());
    return make_error(StatusCode::kExhausted,
                      "{}: the system cannot lock {} bytes; raise 'ulimit -l' or the container's "
                      "limit of locked memory",
                      kDoing, bytes);
  }
  FFDL_RETURN_IF_ERROR(cuda::status_of(error, kDoing));
  return PinnedPages(pages);
}

}  // namespace base
}  // namespace ffdl
