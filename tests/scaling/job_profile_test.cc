#include "scaling/job_profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scaling/steered_job.h"

namespace ffdl::scaling {
namespace {

using namespace std::chrono_literals;

// Runs real processes.
TEST(ProfileJob, MeasuresEachSizeFromTheLargestOn) {
  ffdl::testing::SteeredJob job(3, 3);
  const auto profile =
      profile_job(job.store(), system_runtime(),
                  {.job = "steered", .min_workers = 1, .max_workers = 3, .steps = 10}, {});
  ASSERT_OK(profile);
  EXPECT_TRUE(ffdl::testing::comes_true([&] { return job.has_world_of({"worker-0"}); }));
  EXPECT_OK(job.finish());
  EXPECT_EQ(profile->job, "steered");
  EXPECT_EQ(profile->global_batch, 24);
  ASSERT_EQ(profile->points.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const ProfilePoint& point = profile->points[i];
    EXPECT_EQ(point.step.workers, 3 - static_cast<int>(i));
    EXPECT_EQ(point.step.batch, 8 * point.step.workers);
    EXPECT_GE(point.step.steps, 10U);
    EXPECT_GT(point.step.step_s, 0.001);  // the wait of a worker in each step
    EXPECT_GT(point.step.samples_per_s(), 0);
    EXPECT_GE(point.communication_share(), 0);
    EXPECT_LT(point.communication_share(), 1);
    EXPECT_GT(point.host_memory_bytes, 1U << 20);
  }
}

TEST(ProfileJob, IsJsonWithTheSameNames) {
  const JobProfile profile{"a \"job\"", 64, {{{2, 1, 64, 50, 0.5, 0.125}, 1000}}};
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
  EXPECT_NE(nobody.message().find("StepMetrics"), std::string::npos) << nobody.message();
}

}  // namespace
}  // namespace ffdl::scaling
