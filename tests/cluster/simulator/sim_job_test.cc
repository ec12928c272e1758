#include "cluster/simulator/sim_job.h"

#include <gtest/gtest.h>

#include "cluster/simple_jobs.h"

namespace ffdl::cluster {
namespace {

const BatchRule kFixed{};

TEST(SimJob, WaitsForItsRestartThenTrains) {
  SimpleJobs jobs;
  SimJob& job = jobs.add(2);
  ASSERT_TRUE(advance(job, 0, 60, kFixed).ok());
  EXPECT_EQ(job.progress, 0);  // no workers were allocated
  reallocate(job, {{0, 2}}, 90, kFixed);
  EXPECT_EQ(job.split, (BatchSplit{4, 0}));
  EXPECT_EQ(job.remaining_s({2}, job.split), 1000);
  ASSERT_TRUE(advance(job, 60, 60, kFixed).ok());
  EXPECT_EQ(job.progress, 0);
  EXPECT_FALSE(jobs.estimator().knows_anything());
  ASSERT_TRUE(advance(job, 120, 60, kFixed).ok());
  EXPECT_DOUBLE_EQ(job.progress, 30);
  EXPECT_DOUBLE_EQ(job.attained_gpu_s, 240);
  EXPECT_TRUE(jobs.estimator().knows_anything());
  EXPECT_DOUBLE_EQ(job.remaining(), 970);
}

TEST(SimJob, CrossesEpochsAndEnds) {
  SimpleJobs jobs;
  SimJob& job = jobs.add(1);
  reallocate(job, {{0, 1}}, 0, kFixed);
  ASSERT_TRUE(advance(job, 0, 250, kFixed).ok());
  EXPECT_EQ(job.epoch, 2u);
  EXPECT_DOUBLE_EQ(job.progress, 250);
  ASSERT_TRUE(advance(job, 250, 2000, kFixed).ok());
  EXPECT_EQ(job.completed_s, 1000);
  EXPECT_DOUBLE_EQ(job.attained_gpu_s, 1000);
}

TEST(SimJob, CountsItsReallocations) {
  SimpleJobs jobs;
  SimJob& job = jobs.add(1);
  reallocate(job, {{0, 1}}, 30, kFixed);
  EXPECT_EQ(job.reallocations, 0);
  reallocate(job, {}, 30, kFixed);
  EXPECT_EQ(job.reallocations, 0);
  reallocate(job, {{0, 2}}, 30, kFixed);
  EXPECT_EQ(job.reallocations, 1);
}

TEST(SimJob, MayBeLongerOrShorterThanItsProgram) {
  SimpleJobs jobs;
  for (const double length : {250.0, 1700.0}) {
    SimJob& job = jobs.add(1);
    job.length = job.progress_in(length, {1}, job.application->limits().split(8, 1));
    EXPECT_DOUBLE_EQ(job.length, length);
    EXPECT_EQ(job.remaining_s({1}, {8, 0}), length);
    reallocate(job, {{0, 1}}, 0, kFixed);
    ASSERT_TRUE(advance(job, 0, 3000, kFixed).ok());
    EXPECT_EQ(job.completed_s, length);
  }
  EXPECT_EQ(jobs.active()[0]->progress_in(10, {9}, {8, 0}), 0);  // never measured
}

TEST(SimJob, SaysWhichSizeWasNotMeasured) {
  SimpleJobs jobs;
  SimJob& job = jobs.add(4);
  reallocate(job, {{0, 2}, {1, 2}}, 0, kFixed);
  EXPECT_EQ(advance(job, 0, 60, kFixed).message(),
            "simulate job 'job0': the profile of 'simple' has no step time for 4 workers on 2 "
            "nodes with 2 "
            "samples each; ask for a size that was measured");
}

}  // namespace
}  // namespace ffdl::cluster
