#include "cluster/simulator/synthetic_workload.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cluster/simulator/simulator.h"
#include "support/status_matchers.h"

namespace ffdl::cluster {
namespace {

// Returns programs with steps of 1 s for any number of workers, 1000 steps of the smallest batch.
// Each sample has the same value.
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

std::map<std::string, ApplicationProfile> tables() {
  ApplicationProfile small{.name = "small"}, large{.name = "large"};
  small.throughputs = {{8, {{1, 1.0}, {2, 1.5}}}};
  large.throughputs = {{16, {{2, 1.0}, {64, 9.0}}}, {32, {{64, 8.0}}}};
  return {{"small", small}, {"large", large}};
}

TEST(MakeWorkload, JobsOfTablesAskForWhatIsPossibleAndHaveAnEndOfTheirOwn) {
  SyntheticWorkload options = load_of(Arrivals::kPoisson);
  options.jobs = 500;
  int two = 0;
  for (const WorkloadJob& job : make_workload(tables(), options).value()) {
    EXPECT_TRUE(tables()[job.application].throughputs[job.batch].contains(job.workers));
    EXPECT_GE(job.duration_s, 600);
    EXPECT_LE(job.duration_s, 36000);
    two += job.application == "small" && job.workers == 2 ? 1 : 0;
  }
  EXPECT_GT(two, 80);  // half of the half that trains it
  EXPECT_LT(two, 170);
}

TEST(DrawPrograms, GivesEachJobOneThatItsWorkersCanTrain) {
  std::vector<WorkloadJob> trace;
  for (int i = 0; i < 60; ++i) {
    WorkloadJob job;
    job.name = std::to_string(i);
    job.workers = i % 2 == 0 ? 2 : 64;
    job.duration_s = 100;
    trace.push_back(job);
  }
  trace[0].application = "mine";
  const SyntheticWorkload options{.nodes = 16, .gpus_per_node = 4};
  ASSERT_OK(draw_programs(trace, tables(), options));
  EXPECT_EQ(trace[0].application, "mine");
  std::map<std::pair<std::string, int64_t>, int> drawn;
  for (size_t i = 1; i < trace.size(); ++i) {
    ++drawn[{trace[i].application, trace[i].batch}];
    EXPECT_TRUE(
        tables()[trace[i].application].throughputs[trace[i].batch].contains(trace[i].workers));
  }
  EXPECT_EQ(drawn.size(), 3U);
}

TEST(DrawPrograms, WhoCanTrainNothingIsNamedWithItsLine) {
  WorkloadJob job;
  job.name = "a";
  job.workers = 3;
  job.source = {.file = "t.csv", .line = 7, .workers_column = 4};
  SyntheticWorkload options{.nodes = 16, .gpus_per_node = 4};
  EXPECT_FAILS(
      draw_programs(std::span(&job, 1), tables(), options), StatusCode::kInvalidArgument,
      "read 't.csv': line 7, column 4: job 'a': it has 3 workers, and no program was measured "
      "with so many");
  options.nodes = 1;
  job.workers = 8;
  EXPECT_FAILS(draw_programs(std::span(&job, 1), tables(), options), StatusCode::kInvalidArgument,
               "there are 1 nodes of 4 GPUs");
  EXPECT_TRUE(draw_programs(std::span(&job, 1), {{"any", unmeasured_program("any", 8)}}, {}).ok());
}

TEST(MakeWorkload, RefusesWhatMakesNoSense) {
  SyntheticWorkload none = load_of(Arrivals::kPoisson);
  EXPECT_FAILS(make_workload({}, none), StatusCode::kInvalidArgument, "of 0 programs");
  none.load = 0;
  EXPECT_FAILS(make_workload(small_programs(), none), StatusCode::kInvalidArgument, "a load of 0");
  auto unmeasured = small_programs();
  unmeasured["net"].placed = {{{16}, 8, 1.0, 0.0}};
  EXPECT_FAILS(make_workload(unmeasured, load_of(Arrivals::kPoisson)), StatusCode::kInvalidArgument,
               "has no step time");
}

}  // namespace
}  // namespace ffdl::cluster
