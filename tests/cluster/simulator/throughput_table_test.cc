#include "cluster/simulator/throughput_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "support/data_folder.h"
#include "support/temp_folder.h"

namespace ffdl::cluster {
namespace {

TEST(ThroughputTables, TakeTheBestBatchOfEachSize) {
  TempFolder folder;
  folder.write("b.csv", "global_batch_size,1,2,4\n64,1.0,1.5,\n128,0.6,1.0,nan\n32,0,0,3.0\n");
  folder.write("a.csv", "global_batch_size,4,2\r\n10,8,5\r\n");
  folder.write("notes.txt", "not a table");
  const auto jobs = load_throughput_tables(folder.path()).value();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "a");  // no size of one worker, so relative to half of the rate of two
  EXPECT_EQ(jobs[0].sizes, (std::vector<SizeOption>{{2, 2.0, 10}, {4, 3.2, 10}}));
  EXPECT_EQ(jobs[1].name, "b");
  ASSERT_EQ(jobs[1].sizes.size(), 3u);
  EXPECT_EQ(jobs[1].sizes[0], (SizeOption{1, 1.0, 128}));
  EXPECT_NEAR(jobs[1].sizes[1].value, 128.0 / 76.8, 1e-12);
  EXPECT_NEAR(jobs[1].sizes[2].value, 96.0 / 76.8, 1e-12);
  EXPECT_EQ(jobs[1].sizes[2].batch, 32);
}

TEST(ThroughputProfiles, AreTheCellsThatArePossible) {
  TempFolder folder;
  folder.write("b.csv", "global_batch_size,1,2,4\n64,1.0,1.5,\n128,0.6,nan,0\n");
  const auto profiles = load_throughput_profiles(folder.path());
  ASSERT_TRUE(profiles.ok()) << profiles.status().message();
  const std::map<int64_t, std::map<int, double>> cells = {{64, {{1, 1.0}, {2, 1.5}}},
                                                          {128, {{1, 0.6}}}};
  EXPECT_EQ(profiles->at("b").throughputs, cells);
  const std::string file = folder.write("c.csv", "global_batch_size,1\n64,-1\n");
  EXPECT_EQ(load_throughput_profiles(folder.path()).status().message(),
            "read '" + file +
                "': line 2, column 2 (1): -1 steps per second; leave the cell empty if it is not "
                "possible");
}

TEST(ThroughputTables, MayBeHeldToTheSmallestOrLargestBatch) {
  TempFolder folder;
  folder.write("b.csv", "global_batch_size,1,2\n64,1.0,1.5\n128,0.6,\n16,0,nan\n");
  const auto least = load_throughput_tables(folder.path(), BatchChoice::kMin).value();
  EXPECT_EQ(least[0].sizes, (std::vector<SizeOption>{{1, 1.0, 64}, {2, 1.5, 64}}));
  const auto most = load_throughput_tables(folder.path(), BatchChoice::kMax).value();
  EXPECT_EQ(most[0].sizes, (std::vector<SizeOption>{{1, 1.0, 128}}));
}

TEST(ThroughputTables, ComplaintsNameFileLineAndColumn) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "line 1, column 1: no header; the first line names the columns"},
      {"batch,1,x\n8,1,1\n",
       "line 1, column 3 (x): not a number of workers; write a whole number from 1 on"},
      {"batch,0\n8,1\n",
       "line 1, column 2 (0): not a number of workers; write a whole number from 1 on"},
      {"batch,1,1\n8,1,1\n",
       "line 1, column 3 (1): this number of workers is listed twice; list each once"},
      {"batch,1,2\n8,1,2\n16,1,-0.5\n",
       "line 3, column 3 (2): -0.5 steps per second; leave the cell empty if it is not possible"},
      {"batch,1,2\n8,1,fast\n",
       "line 2, column 3 (2): 'fast' is not a number; write steps per second, or nan"},
      {"batch,1\n8,inf\n",
       "line 2, column 2 (1): 'inf' is not a number; write steps per second, or nan"},
      {"batch,1,2\n8,1\n",
       "line 2, column 3: 2 cells where the header has 3; separate them by commas"},
      {"batch,1\n8,1,2\n",
       "line 2, column 3: 3 cells where the header has 2; separate them by commas"},
      {"batch,1\n-8,1\n",
       "line 2, column 1 (batch): '-8' is not a whole number from 1 on; write one"},
      {"batch,1\n8,1\n8,2\n", "line 3, column 1 (batch): batch 8 is listed twice; list each once"},
      {"batch,1\n8,0\n16,nan\n",
       "line 1, column 1 (batch): no possible size in 2 lines; give at least one cell above 0"},
      {"batch,1\n",
       "line 1, column 1 (batch): no possible size in 0 lines; give at least one cell above 0"},
      {"batch\n8\n",
       "line 1, column 1 (batch): no possible size in 1 lines; give at least one cell above 0"},
  };
  for (const auto& c : cases) {
    TempFolder folder;
    const std::string file = folder.write("x.csv", c.text);
    const auto jobs = load_throughput_tables(folder.path());
    EXPECT_EQ(jobs.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(jobs.status().message(), "read '" + file + "': " + c.message);
  }
}

TEST(ThroughputTables, NeedAFolderWithTables) {
  TempFolder folder;
  EXPECT_EQ(load_throughput_tables(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(load_throughput_tables(folder.path() + "/none").status().code(), StatusCode::kNotFound);
}

// Reads the published tables by other means, and tries every combination of sizes.
using Rates = std::map<int, double>;  // workers to samples per second at the best batch

Rates read_rates(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line, cell;
  std::getline(file, line);
  std::vector<int> workers;
  std::istringstream header(line.substr(line.find(',') + 1));
  while (std::getline(header, cell, ',')) workers.push_back(std::stoi(cell));
  Rates rates;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::getline(cells, cell, ',');
    const double batch = std::stod(cell);
    for (const int count : workers) {
      std::getline(cells, cell, ',');
      const double rate = cell.empty() ? 0 : std::stod(cell) * batch;
      if (rate > 0) rates[count] = std::max(rates[count], rate);
    }
  }
  return rates;
}

double best_of_all(const std::vector<Rates>& tables, size_t table, int workers) {
  if (table == tables.size()) return 0;
  double best = -INFINITY;
  for (const auto& [count, rate] : tables[table]) {
    if (count > workers) break;
    best = std::max(best,
                    rate / tables[table].at(1) + best_of_all(tables, table + 1, workers - count));
  }
  return best;
}

TEST(ThroughputTables, ThePlanOfThePublishedOnesEqualsExhaustiveSearch) {
  FFDL_DATA_FOLDER_OR_SKIP(folder, "traces/throughputs_T4");
  std::vector<Rates> tables;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") tables.push_back(read_rates(entry.path()));
  }
  const auto jobs = load_throughput_tables(folder).value();
  ASSERT_EQ(jobs.size(), tables.size());
  for (int workers = static_cast<int>(jobs.size()); workers <= 400; ++workers) {
    const Plan plan = plan_jobs(jobs, std::vector<NodeWorkers>{{"", workers}}).value();
    ASSERT_TRUE(plan.feasible);
    ASSERT_LE(plan.workers_used, workers);
    ASSERT_NEAR(plan.total, best_of_all(tables, 0, workers), 1e-9) << workers << " workers";
  }
}

}  // namespace
}  // namespace ffdl::cluster
