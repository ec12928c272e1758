#include "comm/reduce/device_reduce.h"

#include <gtest/gtest.h>

#include "support/reduce_arrays.h"
#include "support/reduce_threads.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using testing::ReduceArrays;
using testing::run_all_threads;

TEST(DeviceReduce, GivesTheBitsOfTheTreeForAllTypesAtEveryOddSize) {
  uint64_t threads = 0;
  for (const DType type : testing::kAllTypes) {
    for (const ReduceOp op : testing::kAllOps) {
      if (op == ReduceOp::kMean && testing::is_integer(type)) continue;
      for (uint32_t inputs = 1; inputs <= kDeviceInputsMax; ++inputs) {
        for (const uint64_t count : {0, 1, 3, 4, 7, 64, 129, 255}) {
          SCOPED_TRACE(::testing::Message()
                       << "operation " << static_cast<int>(op) << " of " << inputs << " times "
                       << count << ' ' << to_string(type));
          ReduceArrays arrays(type, inputs, count);
          const auto places = arrays.inputs();
          EXPECT_OK(check_reduce(op, type, places, arrays.out(), count));
          DeviceReduce reduce{.input_count = inputs,
                              .is_mean = op == ReduceOp::kMean,
                              .out = arrays.out(),
                              .count = count};
          std::ranges::copy(places, reduce.inputs);
          threads = threads % 67 + 1;
          run_all_threads(op, type, reduce, threads);
          ASSERT_TRUE(arrays.is_reduced(op));
        }
      }
    }
  }
}

TEST(DeviceReduce, WritesNothingBehindItsOutputAndMayWriteOntoAnInput) {
  for (const uint64_t count : {0, 1, 6, 31}) {
    ReduceArrays arrays(DType::kInt32, 2, count);
    DeviceReduce reduce{.input_count = 2, .out = arrays.out(), .count = count};
    std::ranges::copy(arrays.inputs(), reduce.inputs);
    run_all_threads(ReduceOp::kSum, DType::kInt32, reduce, 5);
    EXPECT_EQ(arrays.at(count), arrays.behind());
    ReduceArrays onto(DType::kInt32, 2, count);
    const auto inputs = onto.inputs();
    reduce.inputs[0] = onto.out();
    reduce.inputs[1] = inputs[1];
    reduce.out = onto.out();
    const double first = count > 0 ? onto.at(0) : 0;
    run_all_threads(ReduceOp::kSum, DType::kInt32, reduce, 5);
    if (count > 0) {
      EXPECT_EQ(onto.at(0), first + testing::get_element(DType::kInt32,
                                                         static_cast<const std::byte*>(inputs[1])));
    }
  }
}

TEST(DeviceReduce, RefusesWhatAKernelCannotDo) {
  alignas(64) float values[32] = {};
  const std::vector<const void*> two = {values, values + 8};
  const std::vector<const void*> nine(9, values);
  const auto sum = [&](const std::vector<const void*>& inputs, const void* out) {
    return check_reduce(ReduceOp::kSum, DType::kFloat32, inputs, out, 8);
  };
  EXPECT_OK(sum(two, values));
  EXPECT_FAILS(sum({}, values), StatusCode::kInvalidArgument, "0 inputs; give 1 to 8");
  EXPECT_FAILS(sum(nine, values), StatusCode::kInvalidArgument, "9 inputs; give 1 to 8");
  EXPECT_FAILS(sum(two, nullptr), StatusCode::kInvalidArgument, "an output is at address 0x0");
  EXPECT_FAILS(sum({values + 1}, values), StatusCode::kInvalidArgument, "an input is at address");
  EXPECT_OK(check_reduce(ReduceOp::kSum, DType::kFloat32, {{nullptr}}, nullptr, 0));
  EXPECT_FAILS(check_reduce(ReduceOp::kMean, DType::kInt8, two, values, 8),
               StatusCode::kInvalidArgument, "the mean of int8");
  EXPECT_FAILS(check_reduce(static_cast<ReduceOp>(7), DType::kFloat32, two, values, 8),
               StatusCode::kInvalidArgument, "operation 7");
  EXPECT_FAILS(check_reduce(ReduceOp::kSum, static_cast<DType>(77), two, values, 8),
               StatusCode::kInvalidArgument, "dtype 77");
}

}  // namespace
}  // namespace ffdl::comm
