#include "cluster/plan/job_file.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace ffdl::cluster {
namespace {

constexpr char kYaml[] = R"(# three jobs
jobs:
  - name: resnet
    scaling: [1.0, 1.9, 2.7, 3.4]
    min_workers: 2
    max_workers: 3
    current_workers: 2
    switch_cost: 0.1
  - name: bert
    sizes:
      - {workers: 4, scaling: 3.1, batch: 512}
      - {workers: 1, scaling: 1.0, batch: 128}
    may_wait: true
)";

constexpr char kJson[] = R"({
	"jobs": [
		{"name": "resnet", "scaling": [1.0, 1.9, 2.7, 3.4], "min_workers": 2, "max_workers": 3,
		 "current_workers": 2, "switch_cost": 0.1},
		{"name": "bert", "may_wait": true,
		 "sizes": [{"workers": 4, "scaling": 3.1, "batch": 512},
		           {"workers": 1, "scaling": 1.0, "batch": 128}]}
	]
})";

TEST(JobFile, ReadsYamlAndJsonAlike) {
  TempFolder folder;
  for (const std::string& file :
       {folder.write("jobs.yaml", kYaml), folder.write("jobs.json", kJson)}) {
    const auto jobs = load_job_requests(file);
    ASSERT_TRUE(jobs.ok()) << jobs.status().message();
    ASSERT_EQ(jobs->size(), 2u);
    const JobRequest& first = (*jobs)[0];
    EXPECT_EQ(first.name, "resnet");
    EXPECT_EQ(first.sizes, (std::vector<SizeOption>{{2, 1.9, 0}, {3, 2.7, 0}}));
    EXPECT_EQ(first.current_workers, 2);
    EXPECT_EQ(first.switch_cost, 0.1);
    EXPECT_FALSE(first.may_wait);
    const JobRequest& second = (*jobs)[1];
    EXPECT_EQ(second.sizes, (std::vector<SizeOption>{{4, 3.1, 512}, {1, 1.0, 128}}));
    EXPECT_TRUE(second.may_wait);
  }
}

TEST(JobFile, ComplaintsNameFileLineAndColumn) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "line 1, column 1: no list of jobs; write 'jobs:' and one entry for each job"},
      {"jobs: []", "line 1, column 1: no list of jobs; write 'jobs:' and one entry for each job"},
      {"[1, 2]", "line 1, column 1: no list of jobs; write 'jobs:' and one entry for each job"},
      {"jobs:\n  - 3\n",
       "line 2, column 5: a job is not a map; write name, scaling, sizes, profile, min_workers, "
       "max_workers, min_batch, max_batch, device_memory, may_wait, current_workers, switch_cost"},
      {"jobs:\n  - name: a\n    scaling: [1, -2]\n",
       "line 3, column 18: not a number from 0 on; write one"},
      {"jobs:\n  - name: a\n    scaling: [1, 1e200]\n",
       "line 3, column 18: more than 1e+150; write a smaller number"},
      {"jobs:\n  - name: a\n    scaling: 7\n",
       "line 3, column 14: not a list; write [first, second]"},
      {"jobs:\n  - name: a\n    colour: red\n",
       "line 3, column 5: a job has no 'colour'; write name, scaling, sizes, profile, "
       "min_workers, max_workers, min_batch, max_batch, device_memory, may_wait, current_workers, "
       "switch_cost"},
      {"jobs:\n  - scaling: [1]\n", "line 2, column 5: a job without a name; write one"},
      {"jobs:\n  - name: a\n    scaling: [1]\n    min_workers: 2\n",
       "line 2, column 5: job 'a' has no size within its limits; add such a size, or change the "
       "limits"},
      {"jobs:\n  - name: a\n    scaling: [1]\n    min_workers: two\n",
       "line 4, column 18: not a whole number from 1 on; write one"},
      {"jobs:\n  - name: a\n    scaling: [1]\n    may_wait: perhaps\n",
       "line 4, column 15: neither true nor false; write one of them"},
      {"jobs:\n  - name: a\n    scaling: [1]\n    sizes: [{workers: 1}]\n",
       "line 4, column 12: the job lists its sizes twice; write either 'scaling' or 'sizes', and "
       "only once"},
      {"jobs:\n  - name: a\n    sizes: [{workers: 2, scaling: 1}, {workers: 2}]\n",
       "line 3, column 39: 2 workers are listed twice; list each size once"},
      {"jobs:\n  - name: a\n    sizes: [{scaling: 1}]\n",
       "line 3, column 13: a size has no 'workers'; add 'workers' to it"},
      {"jobs:\n  - {name: a, scaling: [1], device_memory: 5}\n",
       "line 2, column 5: min_batch, max_batch and device_memory need a profile; add 'profile'"},
      {"jobs:\n  - {name: a, scaling: [1], min_batch: 5, max_batch: 4}\n",
       "line 2, column 5: min_batch, max_batch and device_memory need a profile; add 'profile'"},
      {"{\"jobs\": [\n  {\"name\": \"a\",\n",
       "line 3, column 1: end of map flow not found; correct the syntax"},
  };
  for (const auto& c : cases) {
    TempFolder folder;
    const std::string file = folder.write("jobs.yaml", c.text);
    const auto jobs = load_job_requests(file);
    EXPECT_EQ(jobs.status().code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_EQ(jobs.status().message(), "read '" + file + "': " + c.message) << c.text;
  }
}

TEST(JobFile, ComplaintsOfAProfileNameItsFileLineAndColumn) {
  const std::string good = "{workers: 1, batch: 8, step_s: 1, communication_share: 0}";
  const auto profile = [](const std::string& points) {
    return "format: ffdl-profile-1\njob: a\nglobal_batch: 8\npoints: " + points + "\n";
  };
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"job: a\n",
       "line 1, column 1: not a profile, as its 'format' is not 'ffdl-profile-1'; write "
       "one with 'ffdl profile'"},
      {"format: ffdl-profile-1\njob: a\npoints: []\n",
       "line 1, column 1: no 'global_batch' in a profile; measure again with 'ffdl profile'"},
      {profile("[]"), "line 4, column 9: no list of points; measure one at least"},
      {profile("[3]"), "line 4, column 10: a point of a profile is not a map; measure again"},
      {profile("[" + good + ", {workers: 1, batch: 8, communication_share: 0}]"),
       "line 4, column 69: no 'step_s' in a profile; measure again with 'ffdl profile'"},
      {profile("[{workers: 0, batch: 8, step_s: 1, communication_share: 0}]"),
       "line 4, column 20: not a whole number from 1 on; write one"},
      {profile("[{workers: 1, batch: 8, step_s: -1, communication_share: 0}]"),
       "line 4, column 41: not a number from 0 on; write one"},
      {profile("[{workers: 1, batch: 8, step_s: 1, communication_share: 2}]"),
       "line 4, column 65: a share above 1; measure again"},
  };
  for (const auto& c : cases) {
    TempFolder folder;
    const std::string file = folder.write("p.json", c.text);
    const std::string jobs = folder.write("jobs.yaml", "jobs: [{name: x, profile: p.json}]\n");
    EXPECT_EQ(load_job_requests(jobs).status().message(), "read '" + file + "': " + c.message);
  }
  TempFolder folder;
  const std::string file = folder.write("p.json", profile("[" + good + "]"));
  const auto limited = [&](const std::string& limits) {
    const std::string jobs =
        folder.write("jobs.yaml", "jobs: [{name: x, profile: p.json, " + limits + "}]\n");
    return std::string(load_job_requests(jobs).status().message());
  };
  EXPECT_NE(limited("min_batch: 5, max_batch: 4").find("column 8: max_batch is smaller"),
            std::string::npos);
  EXPECT_NE(
      limited("max_workers: 65535").find("column 8: max_workers is 65535; write at most 65534"),
      std::string::npos);
  EXPECT_EQ(limited("min_batch: 16, max_workers: 3"), "");
  const auto job = load_job_requests(file);
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ((*job)[0].name, "a");
  EXPECT_EQ((*job)[0].sizes.size(), 1u);
  EXPECT_EQ((*job)[0].source, "'" + file + "': line 1, column 1");
}

// A sample takes 100 bytes, and each worker has 1600.
TEST(JobFile, OnlyMemoryOfADeviceBoundsABatch) {
  const auto batch = [](const std::string& memory) {
    TempFolder folder;
    folder.write("p.json",
                 R"({"format": "ffdl-profile-1", "job": "a", "global_batch": 8, "points": [
        {"workers": 1, "batch": 8, "step_s": 1, "communication_share": 0, )" +
                     memory + "}]}");
    const auto jobs = load_job_requests(folder.write(
        "jobs.yaml", "jobs: [{name: a, profile: p.json, max_batch: 64, device_memory: 1600}]\n"));
    return jobs.ok() ? (*jobs)[0].sizes[0].batch : -1;
  };
  EXPECT_LE(batch(R"("device_memory_bytes": 800)"), 16);
  EXPECT_LE(batch(R"("memory_bytes": 800)"), 16) << "its name before";
  EXPECT_GT(batch(R"("host_memory_bytes": 800)"), 16) << "of a device nothing is known";
  EXPECT_GT(batch(R"("device_memory_bytes": null, "host_memory_bytes": 800)"), 16);
}

TEST(JobFile, SizesMayDemandNodes) {
  TempFolder folder;
  const auto jobs = load_job_requests(folder.write(
      "jobs.yaml",
      "jobs: [{name: a, sizes: [{workers: 2, scaling: 1.9, nodes_max: 1}, {workers: 2, scaling: "
      "1.5, per_node_max: 1}]}]\n"));
  ASSERT_TRUE(jobs.ok()) << jobs.status().message();
  EXPECT_EQ((*jobs)[0].sizes,
            (std::vector<SizeOption>{{.workers = 2, .value = 1.9, .nodes_max = 1},
                                     {.workers = 2, .value = 1.5, .per_node_max = 1}}));
}

// Reading two million sizes took 30 s when each was compared with all before it.
TEST(JobFile, ManySizesAreReadInLinearTime) {
  TempFolder folder;
  std::string text = "jobs:\n  - name: a\n    scaling: [1";
  for (int i = 2; i <= 200'000; ++i) text += ",1";
  const auto jobs = load_job_requests(folder.write("jobs.yaml", text + "]\n"));
  ASSERT_TRUE(jobs.ok()) << jobs.status().message();
  EXPECT_EQ((*jobs)[0].sizes.size(), 200'000u);
}

TEST(JobFile, MayBeAbsent) {
  EXPECT_EQ(load_job_requests("/nowhere/jobs.yaml").status().message(),
            "read '/nowhere/jobs.yaml': no such file; check the path");
}

}  // namespace
}  // namespace ffdl::cluster
