#include "base/array_work.h"
#include "base/device.h"
#include "base/errors.h"
#include "comm/reduce/device_reduce.h"
#include "ffdl/ps/update_rule.h"

// Replaces the other files of this folder if FFDL_WITH_CUDA is off.
namespace ffdl {
namespace {

Status no_cuda(std::string_view doing) {
  return base::make_error(StatusCode::kUnimplemented,
                          "{}: this build has no CUDA; build ffdl with -DFFDL_WITH_CUDA=ON, which "
                          "needs nvcc 12.8 or later",
                          doing);
}

}  // namespace

namespace base {

Result<DeviceFacts> find_device() { return no_cuda("find the GPU"); }
Result<int> device_in_use() { return no_cuda("find the GPU in use"); }
Status use_device(int) { return no_cuda("choose a GPU"); }
Result<bool> is_device_used(int) { return no_cuda("check whether a GPU is in use"); }
Result<bool> is_device_memory(const void*) { return no_cuda("find the memory of a pointer"); }
void FreeDeviceMemory::operator()(std::byte*) const {}  // no such memory exists
Result<DeviceMemory> allocate_on_device(uint64_t) { return no_cuda("allocate on the device"); }
void UnmapDeviceMemory::operator()(std::byte*) const {}  // no such memory exists
Result<ShareableDeviceMemory> allocate_shareable_on_device(uint64_t) {
  return no_cuda("allocate memory that processes share on the device");
}
Result<MappedDeviceMemory> map_on_device(int, uint64_t) {
  return no_cuda("map memory that processes share on the device");
}
void FreePinnedMemory::operator()(std::byte*) const {}  // no such memory exists
Result<PinnedMemory> allocate_pinned(uint64_t) {
  return no_cuda("allocate pinned memory of the host");
}
Status copy_on_device(void*, const void*, uint64_t, DeviceStream) {
  return no_cuda("copy on the device");
}
Status wait_for_device(DeviceStream) { return no_cuda("wait for the device"); }
Result<bool> device_is_done(DeviceStream) { return no_cuda("check whether the device is done"); }
void EndDeviceStream::operator()(void*) const {}  // no such stream exists
Result<OwnedDeviceStream> make_device_stream() { return no_cuda("make a stream of the device"); }
Status follow_default_stream(DeviceStream) { return no_cuda("follow the default stream"); }
Status follow_stream(DeviceStream, DeviceStream) { return no_cuda("follow a stream"); }
void UnpinPages::operator()(void*) const {}  // no such pages exist
Result<PinnedPages> pin_pages(void*, uint64_t) { return no_cuda("pin pages"); }
Status run_on_device(const ArrayWork&, DeviceStream) {
  return no_cuda("compute with gradients on the device");
}

}  // namespace base

Status update_on_device(const UpdateRuleOptions&, const UpdateStep&, const DeviceUpdate&, void*) {
  return no_cuda("update on the device");
}

Status comm::reduce_on_device(ReduceOp, DType, std::span<const void* const>, void*, uint64_t,
                              base::DeviceStream) {
  return no_cuda("reduce on the device");
}

}  // namespace ffdl
