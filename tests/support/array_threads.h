#pragma once

#include "base/array_thread.h"

namespace ffdl::testing {

// Does the work of an ArrayWork kernel thread by thread, in another order than that of the
// elements.
template <class T>
void run_threads(const base::ScaleArray& work, uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) base::scale_thread<T>(work, thread, threads);
}
template <class T>
void run_threads(const base::AddArray& work, uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) base::add_thread<T>(work, thread, threads);
}
template <class T>
void run_threads(const base::DivideArray& work, uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) base::divide_thread<T>(work, thread, threads);
}
template <class T>
void run_threads(const base::SquareArray& work, uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) base::square_thread<T>(work, thread, threads);
}

inline DType type_of(const base::ScaleArray& work) { return work.array.dtype; }
inline DType type_of(const base::AddArray& work) { return work.values.dtype; }
inline DType type_of(const base::DivideArray& work) { return work.out.dtype; }
inline DType type_of(const base::SquareArray& work) { return work.values.dtype; }

inline void run_all_threads(const base::ArrayWork& work, uint64_t threads) {
  std::visit(
      [threads](const auto& one) {
        switch (type_of(one)) {
          case DType::kFloat16:
            return run_threads<base::Float16>(one, threads);
          case DType::kBFloat16:
            return run_threads<base::BFloat16>(one, threads);
          case DType::kFloat64:
            return run_threads<double>(one, threads);
          default:
            return run_threads<float>(one, threads);
        }
      },
      work);
}

// Returns the same work at the addresses that `reach` returns.
template <class Reach>
base::ArrayWork reached(base::ArrayWork work, const Reach& reach) {
  if (auto* const scale = std::get_if<base::ScaleArray>(&work)) {
    scale->array.data = reach(scale->array.data);
  } else if (auto* const add = std::get_if<base::AddArray>(&work)) {
    add->values.data = reach(add->values.data);
    add->sum = reach(add->sum);
  } else if (auto* const divide = std::get_if<base::DivideArray>(&work)) {
    divide->out.data = reach(divide->out.data);
    divide->sum = reach(divide->sum);
  } else if (auto* const square = std::get_if<base::SquareArray>(&work)) {
    square->values.data = reach(square->values.data);
    square->subtracted = reach(square->subtracted);
    square->lanes = static_cast<double*>(reach(square->lanes));
  }
  return work;
}

}  // namespace ffdl::testing
