#include <algorithm>
#include <atomic>
#include <cstdint>

#include "ffdl/comm/communicator.h"
#include "support/ranks.h"

// A library for beside_torch.py that sums through our gloo, in a process that also has PyTorch's
// gloo.

// Adds `count` floats of three ranks on threads, in place at rank 0. Makes small and large sums,
// twice. Returns 0 if all succeeded.
extern "C" __attribute__((visibility("default"))) int ffdl_sum_on_threads(float* values,
                                                                          uint64_t count) {
  using namespace ffdl;
  const auto store = open_store("mem://", system_runtime());
  if (!store.ok()) return 1;
  std::atomic<int> failures = 0;
  testing::on_threads(3, [&](int rank) {
    const auto communicator =
        connect_communicator({1, rank, testing::members_named(3)}, **store,
                             deadline_in(std::chrono::seconds(60)), {.backend = Backend::kGloo});
    if (!communicator.ok()) {
      ++failures;
      return;
    }
    std::vector<float> own(values, values + count);
    for (const uint64_t part : {std::min<uint64_t>(count, 10), count}) {
      const Status status = (*communicator)
                                ->all_reduce({own.data(), part}, ReduceOp::kSum,
                                             deadline_in(std::chrono::seconds(60)));
      if (!status.ok()) ++failures;
    }
    if (!(*communicator)->barrier(deadline_in(std::chrono::seconds(60))).ok()) ++failures;
    if (rank == 0) std::copy(own.begin(), own.end(), values);
  });
  return failures.load();
}
