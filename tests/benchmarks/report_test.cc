#include "benchmarks/harness/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace ffdl::bench {
namespace {

Row fold_row() {
  return {.name = "ps/fold",
          .value = 9.5,
          .unit = "GB/s",
          .limit = 10.0,
          .limit_is = "a plain loop",
          .ratio = 0.95,
          .lo = 0.94,
          .hi = 0.96,
          .note = "100 MB"};
}

Row self_check(double lo, double hi) {
  return {.name = "ps/aa", .value = 1, .unit = "s", .ratio = 1, .lo = lo, .hi = hi};
}

TEST(Met, TakesTheBoundThatIsOnTheSideOfTheTarget) {
  Row row = fold_row();
  EXPECT_EQ(met(row), std::nullopt);
  row.target = Target{0.96, false};
  EXPECT_EQ(met(row), true);
  row.target = Target{0.961, false};
  EXPECT_EQ(met(row), false);
  row.target = Target{0.94, true};
  EXPECT_EQ(met(row), true);
  row.target = Target{0.93, true};
  EXPECT_EQ(met(row), false);
  row.disturbed = true;
  EXPECT_EQ(met(row), std::nullopt);
}

TEST(ToJson, HasExactlyTheAgreedKeys) {
  Row peer{.name = "ps/peer", .note = "not installed"};
  Row nonsense = fold_row();
  nonsense.value = std::numeric_limits<double>::quiet_NaN();
  const auto json = to_json(Report{.machine = {"cpu", 2, "Linux 6", 1024},
                                   .commit = "abc",
                                   .date = "2020-01-02T03:04:05Z",
                                   .command = "bench_ps --json x",
                                   .rows = {fold_row(), peer, nonsense}});
  EXPECT_EQ(json["machine"]["cpu"], "cpu");
  EXPECT_EQ(json["machine"]["cores"], 2);
  EXPECT_EQ(json["machine"]["memory_bytes"], 1024);
  EXPECT_EQ(json["commit"], "abc");
  EXPECT_EQ(json["command"], "bench_ps --json x");
  EXPECT_EQ(json["void"], false);
  EXPECT_EQ(json["rows"][0].dump(),
            R"({"name":"ps/fold","value":9.5,"unit":"GB/s","limit":10.0,"limit_is":"a plain loop",)"
            R"("ratio":0.95,"lo":0.94,"hi":0.96,"disturbed":false,"note":"100 MB"})");
  EXPECT_TRUE(json["rows"][1]["value"].is_null());
  EXPECT_TRUE(json["rows"][1]["ratio"].is_null());
  EXPECT_EQ(json["rows"][1]["note"], "not installed");
  EXPECT_TRUE(json["rows"][2]["value"].is_null());
}

TEST(ToJson, AddsTargetAndVerdictWhereThereIsATarget) {
  Report report{.rows = {fold_row()}};
  report.rows[0].target = Target{0.93, false};
  EXPECT_EQ(to_json(report)["rows"][0]["target"], 0.93);
  EXPECT_EQ(to_json(report)["rows"][0]["met"], true);
  report.rows[0].disturbed = true;
  EXPECT_TRUE(to_json(report)["rows"][0]["met"].is_null());
}

TEST(ExitCode, SaysWhatIsWrong) {
  Report report{.rows = {fold_row(), self_check(0.99, 1.01)}};
  EXPECT_EQ(exit_code(report), 0);
  report.rows[0].target = Target{0.99, false};
  EXPECT_EQ(exit_code(report), 3);
  report.rows[0].disturbed = true;
  EXPECT_EQ(exit_code(report), 0);
  report.rows[1] = self_check(1.01, 1.02);
  EXPECT_TRUE(is_void(report));
  EXPECT_EQ(exit_code(report), 2);
}

TEST(ToTable, ShowsVerdictsAndNotes) {
  Report report{.rows = {fold_row(), self_check(0.9, 0.99)}};
  report.rows[0].target = Target{0.99, false};
  const std::string table = to_table(report);
  EXPECT_NE(table.find("MISSED (at least 0.99)"), std::string::npos) << table;
  EXPECT_NE(table.find("100 MB"), std::string::npos) << table;
  EXPECT_NE(table.find("VOID"), std::string::npos) << table;
}

TEST(WriteJson, WritesWhatItSaysOrNothing) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ffdl_report_test." + std::to_string(getpid()));
  const Report report{.rows = {fold_row()}};
  ASSERT_TRUE(write_json(report, path).ok());
  std::ifstream in(path);
  EXPECT_EQ(nlohmann::ordered_json::parse(in), to_json(report));
  std::filesystem::remove(path);
  EXPECT_FALSE(write_json(report, "/proc/no/such/file").ok());
}

}  // namespace
}  // namespace ffdl::bench
