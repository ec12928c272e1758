#include "base/element_pack.h"
#include "comm/reduce/device_reduce.h"
#include "comm/reduce/reduce_thread.h"
#include "cuda/failure.h"
#include "cuda/launch.h"

// Implements src/comm/reduce/device_reduce.h on the device. The work of a thread is in
// src/comm/reduce/reduce_thread.h, where it is tested without a GPU.
namespace ffdl::comm {
namespace {

constexpr std::string_view kDoing = "reduce on the device";

template <class Op, class T>
__global__ void reduce_kernel(const DeviceReduce reduce) {
  reduce_thread<Op, T>(reduce, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                       uint64_t{gridDim.x} * blockDim.x);
}

struct Launch {
  base::LaunchShape shape;
  cudaStream_t stream;
};

template <class T>
cudaError_t launch(ReduceOp op, const DeviceReduce& reduce, const Launch& how) {
  const auto with = [&](void (*kernel)(DeviceReduce)) {
    return cuda::launch(kernel, how.shape, how.stream, reduce);
  };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return with(reduce_kernel<Sum, T>);
    case ReduceOp::kMin:
      return with(reduce_kernel<Least, T>);
    case ReduceOp::kMax:
      return with(reduce_kernel<Greatest, T>);
    case ReduceOp::kProduct:
      return with(reduce_kernel<Product, T>);
  }
  return cudaErrorInvalidValue;  // check_reduce() has refused it
}

cudaError_t launch_for(DType type, ReduceOp op, const DeviceReduce& reduce, const Launch& how) {
  switch (type) {
    case DType::kInt8:
      return launch<int8_t>(op, reduce, how);
    case DType::kInt16:
      return launch<int16_t>(op, reduce, how);
    case DType::kInt32:
      return launch<int32_t>(op, reduce, how);
    case DType::kInt64:
      return launch<int64_t>(op, reduce, how);
    case DType::kFloat16:
      return launch<base::Float16>(op, reduce, how);
    case DType::kBFloat16:
      return launch<base::BFloat16>(op, reduce, how);
    case DType::kFloat32:
      return launch<float>(op, reduce, how);
    case DType::kFloat64:
      return launch<double>(op, reduce, how);
  }
  return cudaErrorInvalidValue;  // check_reduce() has refused it
}

}  // namespace

Status reduce_on_device(ReduceOp op, DType type, std::span<const void* const> inputs, void* out,
                        uint64_t count, base::DeviceStream stream) {
  FFDL_RETURN_IF_ERROR(check_reduce(op, type, inputs, out, count));
  if (count == 0) return {};
  DeviceReduce reduce{.input_count = static_cast<uint32_t>(inputs.size()),
                      .is_mean = op == ReduceOp::kMean,
                      .out = out,
                      .count = count};
  for (size_t i = 0; i < inputs.size(); ++i) reduce.inputs[i] = inputs[i];
  FFDL_ASSIGN_OR_RETURN(const uint32_t multiprocessors, cuda::multiprocessor_count(kDoing));
  const Launch how = {base::launch_shape(count, multiprocessors),
                      static_cast<cudaStream_t>(stream)};
  return cuda::status_of(launch_for(type, op, reduce, how), kDoing);
}

}  // namespace ffdl::comm
