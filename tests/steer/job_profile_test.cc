#include "ffdl/job_profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "steer/steered_job.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

// Real processes.
TEST(ProfileJob, MeasuresEachSizeFromTheLargestOn) {
  testing::SteeredJob job(3, 3);
  const auto profile =
      profile_job(job.store(), system_runtime(),
                  {.job = "steered", .min_workers = 1, .max_workers = 3, .steps = 10}, {});
  ASSERT_OK(profile);
  EXPECT_TRUE(testing::comes_true([&] { return job.has_world_of({"worker-0"}); }));
  EXPECT_OK(job.finish());
  EXPECT_EQ(profile->job, "steered");
  EXPECT_EQ(profile->global_batch, 24U);
  ASSERT_EQ(profile->points.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const ProfilePoint& point = profile->points[i];
    EXPECT_EQ(point.workers, 3 - static_cast<int>(i));
    EXPECT_EQ(point.batch, 8U * static_cast<uint64_t>(point.workers));
    EXPECT_GE(point.steps, 10U);
    EXPECT_GT(point.step_s, 0.001);  // what a worker waits in each
    EXPECT_NEAR(point.samples_per_s * point.step_s, static_cast<double>(point.batch), 1e-6);
    EXPECT_GE(point.communication_share, 0);
    EXPECT_LT(point.communication_share, 1);
    EXPECT_GT(point.host_memory_bytes, 1U << 20);
  }
}

TEST(ProfileJob, IsJsonWithTheSameNames) {
  const JobProfile profile{"a \"job\"", 64, {{2, 64, 50, 0.5, 0.25, 128, 1000}}};
  const auto json = nlohmann::json::parse(profile_json(profile));
  const auto expected = nlohmann::json::parse(R"({
    "format": "ffdl-profile-1", "job": "a \"job\"", "global_batch": 64,
    "points": [{"workers": 2, "batch": 64, "steps": 50, "step_s": 0.5,
                "communication_share": 0.25, "samples_per_s": 128.0,
                "host_memory_bytes": 1000}]})");
  EXPECT_EQ(json, expected);
}

TEST(ProfileJob, SaysWhyThereIsNone) {
  const auto store = open_store("mem://", system_runtime());
  ASSERT_OK(store);
  const auto profile = [&](const JobProfileOptions& options, const StopToken& stop) {
    return profile_job(**store, system_runtime(), options, stop).status();
  };
  EXPECT_EQ(profile({.min_workers = 0}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(profile({.min_workers = 2, .max_workers = 1}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(profile({.steps = 0}, {}).code(), StatusCode::kInvalidArgument);
  StopSource stop;
  stop.request_stop();
  EXPECT_EQ(profile({}, stop.get_token()).code(), StatusCode::kCancelled);
  const Status nobody = profile({}, {});
  EXPECT_EQ(nobody.code(), StatusCode::kNotFound);
  EXPECT_NE(nobody.message().find("StepMeter"), std::string::npos) << nobody.message();
}

}  // namespace
}  // namespace ffdl
