#include <gtest/gtest.h>

#include "base/array_work.h"
#include "base/device.h"
#include "comm/reduce/device_reduce.h"
#include "ffdl/ps/update_rule.h"
#include "support/status_matchers.h"

// Tests a program that links cuda/no_cuda.cc in place of the kernels.
namespace ffdl {
namespace {

TEST(NoCuda, EveryCallNamesTheOptionThatBuildsIt) {
  const auto is_missing = [](const Status& status, std::string_view doing) {
    EXPECT_FAILS(status, StatusCode::kUnimplemented, "-DFFDL_WITH_CUDA=ON");
    EXPECT_EQ(status.message().find(doing), 0U) << status.message();
  };
  is_missing(base::find_device().status(), "find the GPU: ");
  is_missing(base::allocate_on_device(64).status(), "allocate on the device: ");
  is_missing(base::allocate_shareable_on_device(64).status(),
             "allocate memory that processes share on the device: ");
  is_missing(base::map_on_device(0, 64).status(),
             "map memory that processes share on the device: ");
  is_missing(base::allocate_pinned(64).status(), "allocate pinned memory of the host: ");
  is_missing(base::copy_on_device(nullptr, nullptr, 0, nullptr), "copy on the device: ");
  is_missing(base::wait_for_device(nullptr), "wait for the device: ");
  is_missing(base::device_in_use().status(), "find the GPU in use: ");
  is_missing(base::use_device(0), "choose a GPU: ");
  is_missing(base::is_device_used(0).status(), "check whether a GPU is in use: ");
  is_missing(base::is_device_memory(nullptr).status(), "find the memory of a pointer: ");
  is_missing(base::device_is_done(nullptr).status(), "check whether the device is done: ");
  is_missing(base::make_device_stream().status(), "make a stream of the device: ");
  is_missing(base::follow_default_stream(nullptr), "follow the default stream: ");
  is_missing(base::follow_stream(nullptr, nullptr), "follow a stream: ");
  is_missing(base::pin_pages(nullptr, 0).status(), "pin pages: ");
  is_missing(base::run_on_device(base::ScaleArray{}, nullptr),
             "compute with gradients on the device: ");
  is_missing(update_on_device({}, {}, {}, nullptr), "update on the device: ");
  is_missing(comm::reduce_on_device(ReduceOp::kSum, DType::kFloat32, {}, nullptr, 0, nullptr),
             "reduce on the device: ");
}

}  // namespace
}  // namespace ffdl
