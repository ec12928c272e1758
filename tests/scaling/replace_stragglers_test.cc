#include <gtest/gtest.h>

#include <regex>

#include "ffdl/launch/running_job.h"
#include "ffdl/tuning/stragglers.h"
#include "scaling/measurement.h"
#include "scaling/steered_job.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::comes_true;

// Returns the number that the pattern's group matches; the last one if there are several.
int number_in(const std::string& text, const std::string& pattern) {
  const std::regex looked_for(pattern);
  int found = -1;
  for (std::sregex_iterator at(text.begin(), text.end(), looked_for), end; at != end; ++at) {
    found = std::stoi((*at)[1]);
  }
  return found;
}

// Runs real processes. Each sample of worker-1 takes three times the work.
TEST(ReplaceStragglers, ASlowWorkerIsFoundAndReplaced) {
  testing::SteeredJob job(3, 2);
  job.write("slow", "worker-1");
  EXPECT_TRUE(comes_true([&] { return job.has_world_of({"worker-0", "worker-2"}); }))
      << job.log_of("worker-0") << job.log_of("worker-1");
  const auto run = read_run(job.store(), "steered");
  ASSERT_OK(run);
  ASSERT_EQ(run->wanted_workers.size(), 2U);
  EXPECT_EQ(run->wanted_workers[1].number, 2);
  EXPECT_EQ(run->wanted_workers[1].takes_over_from, 1);

  const std::string log = job.log_of("worker-0");
  const int found = number_in(log, "straggler worker-1 in step (\\d+)\n");
  const int began = number_in(log.substr(0, log.find("straggler")), "2 members from step (\\d+)\n");
  ASSERT_GE(began, 0) << log;
  EXPECT_GT(found, began) << log;
  EXPECT_LE(found, began + 15) << log;

  // The work of both workers for a step is halved. That of the slower one drops to a third.
  const auto before = scaling::read_measurement(job.store(), "steered");
  ASSERT_OK(before);
  EXPECT_TRUE(comes_true([&] {
    const auto read = scaling::read_measurement(job.store(), "steered");
    return read.ok() && read->workers == 2 && read->metrics.at("units") == MetricValue{2, 2};
  }));
  EXPECT_OK(job.finish());
  EXPECT_EQ(job.log_of("worker-0").find("straggler", log.find("straggler") + 1), std::string::npos)
      << job.log_of("worker-0");
}

TEST(ReplaceStragglers, RefusesWhatTheWatchDoes) {
  const auto store = open_store("mem://", system_runtime());
  ASSERT_OK(store);
  StragglerOptions options;
  options.factor = 1;
  EXPECT_EQ(StragglerWatch::create_replacing(**store, "job", options).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ffdl
