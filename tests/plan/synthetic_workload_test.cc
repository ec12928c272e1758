#include "ffdl/synthetic_workload.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/status_matchers.h"

namespace ffdl {
namespace {

// Steps of 1 s with any number of workers, 1000 of the smallest batch; each sample is worth the
// same.
std::map<std::string, ApplicationProfile> small_programs() {
  ApplicationProfile program;
  program.name = "net";
  for (int workers = 1; workers <= 8; ++workers) {
    for (const int64_t local : {1, 64}) program.placed.push_back({{workers}, local, 1.0, 0.0});
  }
  for (const int64_t batch : {8, 64}) program.epochs[batch] = {{1000, 0, 1}};
  return {{"net", program}};
}

SyntheticWorkload load_of(Arrivals arrivals) {
  return {.arrivals = arrivals, .jobs = 4000, .load = 0.5, .nodes = 5, .gpus_per_node = 8};
}

TEST(MakeWorkload, HasTheLoadThatWasAskedFor) {
  for (const Arrivals arrivals : {Arrivals::kPoisson, Arrivals::kBursty, Arrivals::kDiurnal}) {
    ASSERT_OK_AND_ASSIGN(const auto jobs, make_workload(small_programs(), load_of(arrivals)));
    ASSERT_EQ(jobs.size(), 4000U);
    double gpu_s = 0, before = 0;
    for (const WorkloadJob& job : jobs) {
      EXPECT_GE(job.submitted_s, before);
      before = job.submitted_s;
      // A step of k times the smallest batch is worth k; one worker takes twice as long to
      // accumulate.
      const double steps = 1000 * 8.0 / static_cast<double>(job.batch);
      gpu_s += steps * job.workers * (job.workers == 1 && job.batch > 8 ? 2 : 1);
    }
    EXPECT_NEAR(gpu_s / (before * 40), 0.5, 0.05);
  }
}

TEST(MakeWorkload, BurstsAreTenMinutesOfAnHour) {
  for (const WorkloadJob& job :
       make_workload(small_programs(), load_of(Arrivals::kBursty)).value()) {
    EXPECT_LT(std::fmod(job.submitted_s, 3600), 600);
  }
}

TEST(MakeWorkload, ASeedIsAWorkload) {
  SyntheticWorkload one = load_of(Arrivals::kPoisson);
  const auto first = make_workload(small_programs(), one).value();
  EXPECT_EQ(make_workload(small_programs(), one)->back().submitted_s, first.back().submitted_s);
  one.seed = 2;
  EXPECT_NE(make_workload(small_programs(), one)->back().submitted_s, first.back().submitted_s);
}

TEST(MakeWorkload, RefusesWhatMakesNoSense) {
  SyntheticWorkload none = load_of(Arrivals::kPoisson);
  EXPECT_FAILS(make_workload({}, none), StatusCode::kInvalidArgument, "of 0 programs");
  none.load = 0;
  EXPECT_FAILS(make_workload(small_programs(), none), StatusCode::kInvalidArgument, "a load of 0");
  auto unmeasured = small_programs();
  unmeasured["net"].placed = {{{16}, 8, 1.0, 0.0}};
  EXPECT_FAILS(make_workload(unmeasured, load_of(Arrivals::kPoisson)), StatusCode::kInvalidArgument,
               "knows the time of no step");
}

}  // namespace
}  // namespace ffdl
