#include "scaling/scaling_records.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::scaling {
namespace {

using namespace std::chrono_literals;

Observation example() {
  Observation seen;
  seen.at = WallTime(1'700'000'000s + 500ms);
  seen.workers = 3;
  seen.step = 120;
  seen.step_s = 0.25;
  seen.samples_per_s = 256;
  seen.communication_share = 0.125;
  seen.speeds = {{.workers = 2, .batch = 50, .steps = 10, .step_s = 0.25, .age = 30s},
                 {.workers = 3, .batch = 64, .step_s = 0.25}};
  seen.idle_workers = -1;
  seen.metrics = {{"queue_depth", {12.5, 2}}, {"a \"name\"\n", {1, 1}}};
  return seen;
}

TEST(SteerRecords, AMeasurementIsReadAsItWasWritten) {
  const Measurement measured{7, 3, 120, 10, 2.5, 640, 64, 0.125, 1 << 20, {{"queue", {1.5, 3}}}};
  const auto again = parse_measurement(encode(measured));
  ASSERT_OK(again);
  EXPECT_EQ(*again, measured);
  const auto old = parse_measurement(
      R"({"generation":1,"workers":1,"step":9,"steps":2,"seconds":1.5,"samples":16,)"
      R"("communication_share":0.5,"host_memory_bytes":4096,"metrics":{}})");
  ASSERT_OK(old);
  EXPECT_EQ(old->host_memory_bytes, 4096U);
  EXPECT_EQ(old->batch, 0U) << "it did not say";
}

TEST(SteerRecords, WhatIsNoMeasurementIsCorrupt) {
  const std::string good = encode(Measurement{1, 1, 1, 1, 1, 1, 1, 0, 1, {}});
  ASSERT_OK(parse_measurement(good));
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{}"),
                                  std::string("null"), good.substr(0, good.size() / 2)}) {
    EXPECT_EQ(parse_measurement(text).status().code(), StatusCode::kCorrupt) << text;
  }
  for (const char* field : {"\"workers\":1", "\"steps\":1", "\"seconds\":1.0", "\"samples\":1",
                            "\"batch\":1", "\"host_memory_bytes\":1"}) {
    for (const char* value : {"\"x\"", "-1.5", "null", "1e999"}) {
      std::string text = good;
      const size_t at = text.find(field);
      ASSERT_NE(at, std::string::npos) << field;
      const std::string_view name(field);
      text.replace(at, name.size(), std::string(name.substr(0, name.find(':') + 1)) + value);
      if (name.starts_with("\"seconds") && std::string_view(value) == "-1.5") continue;
      EXPECT_EQ(parse_measurement(text).status().code(), StatusCode::kCorrupt) << text;
    }
  }
}

TEST(SteerRecords, AnObservationIsReadAsItWasLogged) {
  const LoggedDecision logged{"digits", example(), 4, 3, "a reason", ""};
  const auto again = parse_observation(encode(logged));
  ASSERT_OK(again);
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ(**again, logged.observation);
}

TEST(SteerRecords, AnObservationMayBeWrittenByHand) {
  const auto read = parse_observation(R"({"t_s": 2, "workers": 1, "metrics": {"queue": 7}})");
  ASSERT_OK(read);
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->at, WallTime(2s));
  EXPECT_EQ((*read)->metrics.at("queue"), (MetricValue{7, 1}));
  const auto other = parse_observation(R"({"event": "step", "t_s": 2})");
  ASSERT_OK(other);
  EXPECT_FALSE(other->has_value());
}

TEST(SteerRecords, WhatIsNoObservationIsRefused) {
  for (const char* text : {"", "7", "{", R"({"workers": 1})", R"({"t_s": "x", "workers": 1})",
                           R"({"t_s": 1e99, "workers": 1})", R"({"t_s": 1, "workers": -1})",
                           R"({"t_s": 1, "workers": 2000000000})", R"({"t_s": 1, "workers": 1.5})",
                           R"({"t_s": 1, "observation": 3})", R"({"t_s": 1, "observation": {}})",
                           R"({"t_s": 1, "workers": 1, "metrics": 3})",
                           R"({"t_s": 1, "workers": 1, "metrics": {"a": "b"}})",
                           R"({"t_s": 1, "workers": 1, "metrics": {"a": {"sum": 1}}})",
                           R"({"t_s": 1, "workers": 1, "speeds": [{}]})",
                           R"({"t_s": 1, "workers": 1, "idle_workers": 3000000000})",
                           R"({"t_s": 1, "workers": 1, "step": -1})"}) {
    EXPECT_EQ(parse_observation(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace ffdl::scaling
