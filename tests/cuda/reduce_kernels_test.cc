#include <gtest/gtest.h>

#include <vector>

#include "comm/reduce/device_reduce.h"
#include "cuda/device_arrays.h"
#include "support/reduce_arrays.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

TEST(ReduceKernels, GiveTheBitsOfTheProcessor) {
  FFDL_SKIP_WITHOUT_GPU();
  for (const DType type : testing::kAllTypes) {
    for (const ReduceOp op : testing::kAllOps) {
      if (op == ReduceOp::kMean && testing::is_integer(type)) continue;
      for (const uint32_t count_of_inputs : {1, 2, 3, 7, 8}) {
        constexpr uint64_t kCount = 1031;
        testing::ReduceArrays arrays(type, count_of_inputs, kCount);
        std::vector<base::DeviceMemory> memories;
        std::vector<const void*> inputs;
        for (const void* const input : arrays.inputs()) {
          ASSERT_OK_AND_ASSIGN(auto memory, testing::on_device(input, arrays.bytes()));
          inputs.push_back(memory.get());
          memories.push_back(std::move(memory));
        }
        ASSERT_OK_AND_ASSIGN(const auto out, base::allocate_on_device(arrays.bytes()));
        ASSERT_OK(reduce_on_device(op, type, inputs, out.get(), kCount, nullptr));
        ASSERT_OK(testing::to_host(arrays.out(), out.get(), arrays.bytes()));
        ASSERT_TRUE(arrays.is_reduced(op)) << "operation " << static_cast<int>(op) << " of "
                                           << count_of_inputs << ' ' << to_string(type);
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::comm
