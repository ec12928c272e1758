#include "base/array_thread.h"
#include "base/array_work.h"
#include "cuda/failure.h"
#include "cuda/launch.h"

// Implements src/base/array_work.h on the device. The work of a thread is in
// src/base/array_thread.h, where it is tested without a GPU.
namespace ffdl::base {
namespace {

constexpr std::string_view kDoing = "compute with gradients on the device";

__device__ uint64_t this_thread() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ uint64_t all_threads() { return uint64_t{gridDim.x} * blockDim.x; }

template <class T>
__global__ void scale_kernel(const ScaleArray work) {
  scale_thread<T>(work, this_thread(), all_threads());
}
template <class T>
__global__ void add_kernel(const AddArray work) {
  add_thread<T>(work, this_thread(), all_threads());
}
template <class T>
__global__ void divide_kernel(const DivideArray work) {
  divide_thread<T>(work, this_thread(), all_threads());
}
template <class T>
__global__ void square_kernel(const SquareArray work) {
  square_thread<T>(work, this_thread(), all_threads());
}

DType type_of(const ScaleArray& work) { return work.array.dtype; }
DType type_of(const AddArray& work) { return work.values.dtype; }
DType type_of(const DivideArray& work) { return work.out.dtype; }
DType type_of(const SquareArray& work) { return work.values.dtype; }

// Returns the count for launch_shape(): a thread takes one lane of squares, or one pack of the
// others.
uint64_t count_of(const ScaleArray& work) { return work.array.count; }
uint64_t count_of(const AddArray& work) { return work.values.count; }
uint64_t count_of(const DivideArray& work) { return work.out.count; }
uint64_t count_of(const SquareArray& work) { return work.picks * kNormLanes * kPackElements; }

template <class T>
auto kernel_of(const ScaleArray&) {
  return scale_kernel<T>;
}
template <class T>
auto kernel_of(const AddArray&) {
  return add_kernel<T>;
}
template <class T>
auto kernel_of(const DivideArray&) {
  return divide_kernel<T>;
}
template <class T>
auto kernel_of(const SquareArray&) {
  return square_kernel<T>;
}

template <class Work>
cudaError_t launch(const Work& work, const LaunchShape& shape, cudaStream_t stream) {
  const auto with = [&](void (*kernel)(Work)) {
    return cuda::launch(kernel, shape, stream, work);
  };
  switch (type_of(work)) {
    case DType::kFloat16:
      return with(kernel_of<Float16>(work));
    case DType::kBFloat16:
      return with(kernel_of<BFloat16>(work));
    case DType::kFloat64:
      return with(kernel_of<double>(work));
    default:  // check_array_work() has refused the others
      return with(kernel_of<float>(work));
  }
}

}  // namespace

Status run_on_device(const ArrayWork& work, DeviceStream stream) {
  FFDL_RETURN_IF_ERROR(check_array_work(work));
  FFDL_ASSIGN_OR_RETURN(const uint32_t multiprocessors, cuda::multiprocessor_count(kDoing));
  return std::visit(
      [&](const auto& one) -> Status {
        const LaunchShape shape = launch_shape(count_of(one), multiprocessors);
        if (shape.blocks == 0) return {};
        return cuda::status_of(launch(one, shape, static_cast<cudaStream_t>(stream)), kDoing);
      },
      work);
}

}  // namespace ffdl::base
