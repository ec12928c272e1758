#include "cluster/simulator/trace_files.h"

#include <gtest/gtest.h>

#include "cluster/simulator/throughput_table.h"
#include "support/data_folder.h"
#include "support/temp_folder.h"

namespace ffdl::cluster {
namespace {

TEST(Workload, IsReadFromItsColumnsInAnyOrder) {
  TempFolder folder;
  const auto jobs = load_workload(
      folder.write("w.csv", "time,name,num_replicas,application,batch_size\n107.5,a-0,6,a,2048\n"));
  ASSERT_TRUE(jobs.ok()) << jobs.status().message();
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_EQ((*jobs)[0].name, "a-0");
  EXPECT_EQ((*jobs)[0].application, "a");
  EXPECT_EQ((*jobs)[0].submitted_s, 107.5);
  EXPECT_EQ((*jobs)[0].workers, 6);
  EXPECT_EQ((*jobs)[0].batch, 2048);
}

TEST(Workload, ComplaintsNameFileLineAndColumn) {
  const std::string header = "name,time,application,num_replicas,batch_size\n";
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"name,time,application,batch_size\na,1,b,8\n",
       "line 1, column 5: no column 'num_replicas' among 'name, time, application, batch_size'; "
       "add it"},
      {header, "line 1, column 1 (name): no job; add a line for each"},
      {header + "a,soon,b,1,8\n",
       "line 2, column 2 (time): 'soon' is not a number; write a finite one"},
      {header + "a,-1,b,1,8\n", "line 2, column 2 (time): a time below 0; count from the start"},
      {header + "a,1,b,1,8\n\na,1,b,0,8\n",
       "line 4, column 4 (num_replicas): '0' is not a whole number from 1 on; write one"},
      {header + "a,1,b,1,8.5\n",
       "line 2, column 5 (batch_size): '8.5' is not a whole number from 1 on; write one"},
      {header + "a,1e18,b,1,8\n",
       "line 2, column 2 (time): '1e18' is beyond 1e+10; write a smaller number"},
      {header + "a,1,b,1,9223372036854775807\n",
       "line 2, column 5 (batch_size): '9223372036854775807' is more than 1099511627776; write a "
       "smaller number"},
      {header + "a,1,b\n",
       "line 2, column 4: 3 cells where the header has 5; separate them by commas"},
  };
  for (const auto& c : cases) {
    TempFolder folder;
    const std::string file = folder.write("w.csv", c.text);
    EXPECT_EQ(load_workload(file).status().message(), "read '" + file + "': " + c.message);
  }
  EXPECT_EQ(load_workload("/nowhere/w.csv").status().code(), StatusCode::kNotFound);
}

TEST(Workload, MayBeTheTraceOfACluster) {
  TempFolder folder;
  const auto jobs = load_workload(folder.write(
      "t.csv", "job_id,submission_time,duration,num_gpu\nb,1932100,60,8\na,1932025,2429.5,64\n"));
  ASSERT_TRUE(jobs.ok()) << jobs.status().message();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].name, "a");  // in order of arrival, from 0 s on
  EXPECT_EQ((*jobs)[0].submitted_s, 0);
  EXPECT_EQ((*jobs)[0].duration_s, 2429.5);
  EXPECT_EQ((*jobs)[0].workers, 64);
  EXPECT_EQ((*jobs)[0].application, "");
  EXPECT_EQ((*jobs)[0].source.line, 3u);
  EXPECT_EQ((*jobs)[1].submitted_s, 75);
}

TEST(Workload, ComplaintsOfATraceNameFileLineAndColumn) {
  const std::string header = "job_id,submission_time,duration,num_gpu\n";
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"job_id,submission_time,num_gpu\na,1,2\n",
       "line 1, column 4: no column 'duration' among 'job_id, submission_time, num_gpu'; add it"},
      {"submission_time,duration,num_gpu\n1,2,3\n",
       "line 1, column 4: no column 'job_id' among 'submission_time, duration, num_gpu'; add it"},
      {header, "line 1, column 1 (job_id): no job; add a line for each"},
      {header + "a,1,0,1\n", "line 2, column 3 (duration): a job of 0 s or less; leave it out"},
      {header + "a,1,-5,1\n", "line 2, column 3 (duration): a job of 0 s or less; leave it out"},
      {header + "a,1,nan,1\n",
       "line 2, column 3 (duration): 'nan' is not a number; write a finite one"},
      {header + "a,1,1e18,1\n",
       "line 2, column 3 (duration): '1e18' is beyond 1e+10; write a smaller number"},
      {header + "a,1700000000000,5,1\n",
       "line 2, column 2 (submission_time): '1700000000000' is beyond 1e+10; write a smaller "
       "number"},
      {header + "a,1,5,0\n",
       "line 2, column 4 (num_gpu): '0' is not a whole number from 1 on; write one"},
      {header + "a,1,5,1000001\n",
       "line 2, column 4 (num_gpu): '1000001' is more than 1000000; write a smaller number"},
  };
  for (const auto& c : cases) {
    TempFolder folder;
    const std::string file = folder.write("t.csv", c.text);
    EXPECT_EQ(load_workload(file).status().message(), "read '" + file + "': " + c.message);
  }
}

TEST(Workload, ThePublishedTracesAreRead) {
  FFDL_DATA_FOLDER_OR_SKIP(folder, "traces/itp");
  const auto jobs = load_workload(folder + "/cluster01.csv").value();
  EXPECT_EQ(jobs.size(), 1595u);
  EXPECT_EQ(jobs[0].workers, 64);
  EXPECT_EQ(jobs[0].duration_s, 2429);
  EXPECT_EQ(jobs.back().submitted_s, 4848400 - 1932025);
  EXPECT_EQ(load_workload(folder + "/cluster10.csv").value().size(), 260u);
}

constexpr char kPlacements[] = "placement,local_bsz,step_time,sync_time\n1,8,0.5,0\n12,8,0.7,0.1\n";
constexpr char kScalability[] =
    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,3,8,0.9,0.4\n";
constexpr char kEpochs[] = "progress,iteration,metric,grad_sqr,grad_var\n10,10,0.5,2.0,6.0\n";

TEST(Profiles, AreOneFolderForEachApplication) {
  TempFolder folder;
  folder.write("net/placements.csv", kPlacements);
  folder.write("net/scalability.csv", kScalability);
  folder.write("net/validation-16.csv", kEpochs);
  const auto profiles = load_profiles(folder.path());
  ASSERT_TRUE(profiles.ok()) << profiles.status().message();
  const ApplicationProfile& net = profiles->at("net");
  ASSERT_EQ(net.placed.size(), 2u);
  EXPECT_EQ(net.placed[1].placement, (std::vector{1, 2}));
  ASSERT_EQ(net.spread.size(), 1u);
  EXPECT_EQ(net.spread[0].placement, (std::vector{2, 1}));
  EXPECT_EQ(net.epochs.at(16)[0].grad_var, 6.0);
}

TEST(Profiles, ComplaintsNameFileLineAndColumn) {
  const struct {
    const char* file;
    const char* text;
    const char* message;
  } cases[] = {
      {"net/placements.csv", "placement,local_bsz,step_time,sync_time\n",
       "line 1, column 1 (placement): no line of measurements; add one at least"},
      {"net/placements.csv", "placement,local_bsz,step_time,sync_time\n1x,8,1,0\n",
       "line 2, column 1 (placement): '1x' is not a placement; write the workers of each node, 1 "
       "to 9"},
      {"net/placements.csv", "placement,local_bsz,step_time,sync_time\n1,8,0,0\n",
       "line 2, column 3 (step_time): a step of 0 s or less; measure it again"},
      {"net/placements.csv", "placement,local_bsz,step_time,sync_time\n1,8,1,2\n",
       "line 2, column 4 (sync_time): not between 0 and the step's time; measure it again"},
      {"net/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,3,8,1,0\n",
       "line 2, column 2 (num_replicas): '3' is not a whole number from 4 on; write one"},
      {"net/validation-16.csv", "progress,iteration,metric,grad_sqr\n1,1,1,1\n",
       "line 1, column 5: no column 'grad_var' among 'progress, iteration, metric, grad_sqr'; add "
       "it"},
      {"net/validation-16.csv", "progress,grad_sqr,grad_var\n5,1,1\n5,1,1\n",
       "line 3, column 1 (progress): progress does not grow; count it from the start"},
      {"net/validation-16.csv", "progress,grad_sqr,grad_var\n5,1,-1\n",
       "line 2, column 3 (grad_var): a variance below 0"},
      {"net/validation-x.csv", kEpochs, "'x' is not a batch; name it validation-<batch>.csv"},
  };
  for (const auto& c : cases) {
    TempFolder folder;
    folder.write("net/placements.csv", kPlacements);
    folder.write("net/validation-16.csv", kEpochs);
    const std::string file = folder.write(c.file, c.text);
    EXPECT_EQ(load_profiles(folder.path()).status().message(), "read '" + file + "': " + c.message);
  }
}

TEST(Profiles, NeedPlacementsAndEpochs) {
  TempFolder folder;
  EXPECT_EQ(load_profiles(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(load_profiles(folder.path() + "/none").status().code(), StatusCode::kNotFound);
  folder.write("net/placements.csv", kPlacements);
  EXPECT_EQ(load_profiles(folder.path()).status().message(),
            "read '" + folder.path() + "/net': no 'validation-<batch>.csv'; add one at least");
}

}  // namespace
}  // namespace ffdl::cluster
