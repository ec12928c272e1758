#pragma once

#include <type_traits>
#include <vector>

#include "ffdl/comm/communicator.h"

namespace ffdl::comm {

// Returns the value of each rank, by rank, as raw bytes. Errors: those of all_gather().
template <class T>
Result<std::vector<T>> gather_from_all(Communicator& ranks, T mine, Time deadline) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(ranks.world().members.size());
  FFDL_RETURN_IF_ERROR(ranks.all_gather({&mine, sizeof mine, DType::kInt8},
                                        {all.data(), all.size() * sizeof(T), DType::kInt8},
                                        deadline));
  return all;
}

}  // namespace ffdl::comm
