#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/device.h"
#include "base/device_error.h"
#include "base/errors.h"
#include "cuda/driver.h"
#include "cuda/failure.h"

// Memory of a GPU that processes share, by the driver's virtual memory management. Physical memory
// and the addresses that lead to it are separate. A process that has mapped the memory keeps it.
namespace ffdl::base {
namespace {

using cuda::find_in_driver;

constexpr auto kHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// Functions of the driver. All of them exist in CUDA 11.2 or before.
struct Driver {
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
  decltype(&::cuMemAddressFree) address_free = nullptr;
  decltype(&::cuMemAddressReserve) address_reserve = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&::cuMemGetAllocationGranularity) get_granularity = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import_handle = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
};

Result<Driver> load_driver(std::string_view doing) {
  Driver driver;
  FFDL_RETURN_IF_ERROR(find_in_driver("cuDeviceGetAttribute", driver.device_get_attribute, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuGetErrorName", driver.get_error_name, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuGetErrorString", driver.get_error_string, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemAddressFree", driver.address_free, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemAddressReserve", driver.address_reserve, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemCreate", driver.create, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemExportToShareableHandle", driver.export_handle, doing));
  FFDL_RETURN_IF_ERROR(
      find_in_driver("cuMemGetAllocationGranularity", driver.get_granularity, doing));
  FFDL_RETURN_IF_ERROR(
      find_in_driver("cuMemImportFromShareableHandle", driver.import_handle, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemMap", driver.map, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemRelease", driver.release, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemSetAccess", driver.set_access, doing));
  FFDL_RETURN_IF_ERROR(find_in_driver("cuMemUnmap", driver.unmap, doing));
  return driver;
}

// The driver's error numbers equal the runtime's where device_error() distinguishes them.
Status status_of(const Driver& driver, CUresult result, std::string_view doing) {
  if (result == CUDA_SUCCESS) return {};
  const char* name = "";
  const char* text = "";
  static_cast<void>(driver.get_error_name(result, &name));
  static_cast<void>(driver.get_error_string(result, &text));
  return device_error(doing, {.error = static_cast<int>(result), .name = name, .text = text});
}

// The driver, once this thread's GPU is ready for its calls. Choosing the GPU makes its context.
struct Ready {
  Driver driver{};
  int device = 0;
};
Result<Ready> make_ready(std::string_view doing) {
  Ready ready;
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaGetDevice(&ready.device), doing));
  FFDL_RETURN_IF_ERROR(cuda::status_of(cudaSetDevice(ready.device), doing));
  FFDL_ASSIGN_OR_RETURN(ready.driver, load_driver(doing));
  int can = 0;
  FFDL_RETURN_IF_ERROR(status_of(
      ready.driver,
      ready.driver.device_get_attribute(
          &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, ready.device),
      doing));
  if (can != 0) return ready;
  return make_error(StatusCode::kUnimplemented,
                    "{}: GPU {} or its driver cannot export memory as a file descriptor; use NCCL",
                    doing, ready.device);
}

// Maps the memory at an address that this thread's GPU reads and writes.
Result<MappedDeviceMemory> map(const Ready& ready, CUmemGenericAllocationHandle handle,
                               uint64_t bytes, std::string_view doing) {
  const Driver& driver = ready.driver;
  CUdeviceptr address = 0;
  FFDL_RETURN_IF_ERROR(status_of(driver, driver.address_reserve(&address, bytes, 0, 0, 0), doing));
  CUresult result = driver.map(address, bytes, 0, handle, 0);
  if (result != CUDA_SUCCESS) {
    static_cast<void>(driver.address_free(address, bytes));
    return status_of(driver, result, doing);
  }
  MappedDeviceMemory memory(reinterpret_cast<std::byte*>(address), UnmapDeviceMemory{bytes});
  CUmemAccessDesc access{};
  access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ready.device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  result = driver.set_access(address, bytes, &access, 1);
  if (result == CUDA_ERROR_INVALID_DEVICE || result == CUDA_ERROR_NOT_SUPPORTED) {
    return make_error(
        StatusCode::kUnimplemented,
        "{}: GPU {} cannot access the memory of that GPU (see 'nvidia-smi topo -p2p r'); "
        "use NCCL",
        doing, ready.device);
  }
  FFDL_RETURN_IF_ERROR(status_of(driver, result, doing));
  return memory;
}

}  // namespace

void UnmapDeviceMemory::operator()(std::byte* memory) const {
  const Result<Driver> driver = load_driver("unmap a GPU's memory");
  if (!driver.ok()) return;  // the process's end unmaps it
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  static_cast<void>(driver->unmap(address, bytes));
  static_cast<void>(driver->address_free(address, bytes));
}

Result<ShareableDeviceMemory> allocate_shareable_on_device(uint64_t bytes) {
  constexpr std::string_view kDoing = "allocate memory that processes share on the device";
  FFDL_ASSIGN_OR_RETURN(const Ready ready, make_ready(kDoing));
  const Driver& driver = ready.driver;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.requestedHandleTypes = kHandleType;
  kind.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ready.device};
  size_t unit = 0;
  FFDL_RETURN_IF_ERROR(status_of(
      driver, driver.get_granularity(&unit, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), kDoing));
  ShareableDeviceMemory made{.bytes = (bytes + unit - 1) / unit * unit};
  CUmemGenericAllocationHandle handle = 0;
  FFDL_RETURN_IF_ERROR(status_of(driver, driver.create(&handle, made.bytes, &kind, 0), kDoing));
  int descriptor = -1;
  Status status =
      status_of(driver, driver.export_handle(&descriptor, handle, kHandleType, 0), kDoing);
  made.descriptor = ForkPrivateFd(descriptor);
  if (status.ok()) {
    Result<MappedDeviceMemory> mapped = map(ready, handle, made.bytes, kDoing);
    status = mapped.status();
    if (mapped.ok()) made.memory = std::move(mapped).value();
  }
  static_cast<void>(driver.release(handle));  // mappings and descriptors keep the memory
  FFDL_RETURN_IF_ERROR(status);
  return made;
}

Result<MappedDeviceMemory> map_on_device(int descriptor, uint64_t bytes) {
  constexpr std::string_view kDoing = "map memory that processes share on the device";
  FFDL_ASSIGN_OR_RETURN(const Ready ready, make_ready(kDoing));
  CUmemGenericAllocationHandle handle = 0;
  void* const name = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  FFDL_RETURN_IF_ERROR(
      status_of(ready.driver, ready.driver.import_handle(&handle, name, kHandleType), kDoing));
  Result<MappedDeviceMemory> mapped = map(ready, handle, bytes, kDoing);
  static_cast<void>(ready.driver.release(handle));  // the mapping keeps the memory
  return mapped;
}

}  // namespace ffdl::base
