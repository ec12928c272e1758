#include <gtest/gtest.h>

#include "base/array_work.h"
#include "base/device.h"
#include "comm/reduce/device_reduce.h"
#include "ffdl/ps/parameter_server.h"
#include "ffdl/ps/update_rule.h"

namespace ffdl {
namespace {

// A program that is linked with the kernels runs on a machine without a GPU, and reports what is
// missing.
TEST(WithoutGpu, EveryCallSaysWhatIsMissingInOneSentence) {
  if (base::find_device().ok()) GTEST_SKIP() << "this machine has a GPU";
  alignas(64) float values[64] = {};
  DeviceUpdate update{.count = 16, .gradient = values, .weights = values + 16};
  const void* const inputs[] = {values};
  const Status answers[] = {
      base::find_device().status(),
      base::allocate_on_device(64).status(),
      base::allocate_shareable_on_device(64).status(),
      base::map_on_device(0, 64).status(),
      base::allocate_pinned(64).status(),
      base::copy_on_device(values, values + 16, 64, nullptr),
      base::wait_for_device(nullptr),
      base::device_in_use().status(),
      base::use_device(0),
      base::is_device_used(0).status(),
      base::is_device_memory(values).status(),
      base::device_is_done(nullptr).status(),
      base::make_device_stream().status(),
      base::follow_default_stream(nullptr),
      base::follow_stream(nullptr, nullptr),
      base::pin_pages(values, 64).status(),
      base::run_on_device(base::ScaleArray{.array = {values, 16}}, nullptr),
      update_on_device({}, {}, update, nullptr),
      ParameterServer::create({.parameters = 1, .device = 0}).status(),
      comm::reduce_on_device(ReduceOp::kSum, DType::kFloat32, inputs, values, 16, nullptr),
  };
  for (const Status& answer : answers) {
    EXPECT_EQ(answer.code(), StatusCode::kUnimplemented) << answer.to_string();
    EXPECT_NE(answer.message().find("; "), std::string_view::npos)
        << "says nothing to try: " << answer.to_string();
  }
}

}  // namespace
}  // namespace ffdl
