#pragma once

#include "comm/reduce/reduce_thread.h"

// Runs the threads of a reduction's kernel one after the other on the processor.
namespace ffdl::testing {

template <class T>
void run_threads(ReduceOp op, const comm::DeviceReduce& reduce, uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kMean:
        comm::reduce_thread<comm::Sum, T>(reduce, thread, threads);
        break;
      case ReduceOp::kMin:
        comm::reduce_thread<comm::Least, T>(reduce, thread, threads);
        break;
      case ReduceOp::kMax:
        comm::reduce_thread<comm::Greatest, T>(reduce, thread, threads);
        break;
      case ReduceOp::kProduct:
        comm::reduce_thread<comm::Product, T>(reduce, thread, threads);
        break;
    }
  }
}

// Runs the kernel, the last thread first.
inline void run_all_threads(ReduceOp op, DType type, const comm::DeviceReduce& reduce,
                            uint64_t threads) {
  switch (type) {
    case DType::kInt8:
      return run_threads<int8_t>(op, reduce, threads);
    case DType::kInt16:
      return run_threads<int16_t>(op, reduce, threads);
    case DType::kInt32:
      return run_threads<int32_t>(op, reduce, threads);
    case DType::kInt64:
      return run_threads<int64_t>(op, reduce, threads);
    case DType::kFloat16:
      return run_threads<base::Float16>(op, reduce, threads);
    case DType::kBFloat16:
      return run_threads<base::BFloat16>(op, reduce, threads);
    case DType::kFloat32:
      return run_threads<float>(op, reduce, threads);
    case DType::kFloat64:
      return run_threads<double>(op, reduce, threads);
  }
}

}  // namespace ffdl::testing
