#include "ffdl/commit_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

constexpr const char* kHeader = "{\"samples\":10,\"partition_samples\":4,\"epochs\":2}\n";

PartitionLedgerOptions log_options() {
  return {.samples = 10, .partition_samples = 4, .epochs = 2};
}

// What a ledger of one member does with two epochs, told to a log.
void train(CommitLog& log, uint64_t batch) {
  PartitionLedgerOptions ledger_options = log_options();
  ledger_options.on_stable = [&](const CommittedStep& step) { log.write(step); };
  ASSERT_OK_AND_ASSIGN(const auto ledger, PartitionLedger::create(ledger_options));
  World world;
  world.members = {{"w0", 1}};
  ledger->world_changed(world);
  std::vector<std::byte> record(ledger->record_bytes());
  for (uint64_t step = 1; !ledger->is_done(); ++step) {
    ASSERT_OK(ledger->take(batch));
    ledger->describe(record);
    ledger->applied(step, StepRecords(record, record.size(), record.size()));
    ledger->stable(step);
  }
}

TEST(CommitLog, WhatALedgerTellsIsProved) {
  const TempFolder folder;
  for (const char* name : {"a", "b"}) {  // two members tell the same
    ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open(folder.file(name), log_options()));
    train(*log, 3);
    EXPECT_OK(log->status());
  }
  ASSERT_OK_AND_ASSIGN(const CommitAudit audit,
                       audit_commit_logs({folder.file("a"), folder.file("b")}, {.complete = true}));
  EXPECT_EQ(audit.problems, 0U);
  EXPECT_EQ(audit.epochs, 2U);
  EXPECT_EQ(audit.samples, 20U);
}

TEST(CommitLog, GoesOnAfterAKill) {
  const TempFolder folder;
  const std::string path = folder.file("log");
  {
    ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open(path, log_options()));
    log->write({1, {{{"w0", 1}, {0, 0, 3}}}});
    log->write({2, {{{"w0", 1}, {0, 3, 4}}}});
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  ASSERT_OK_AND_ASSIGN(const CommitAudit cut, audit_commit_logs({path}));
  EXPECT_EQ(cut.steps, 1U);
  EXPECT_EQ(cut.cut_lines, 1U);
  {
    ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open(path, log_options()));
    log->write({2, {{{"w0", 2}, {0, 3, 4}}}});
  }
  ASSERT_OK_AND_ASSIGN(const CommitAudit audit, audit_commit_logs({path}));
  EXPECT_EQ(audit.steps, 2U);
  EXPECT_EQ(audit.cut_lines, 1U);
  EXPECT_EQ(audit.problems, 0U);
}

// A process that was killed between making its log and writing to it leaves an empty one.
TEST(CommitLog, AnEmptyLogSaysNothing) {
  const TempFolder folder;
  const std::string empty = folder.write("empty", "");
  const std::string path = folder.file("log");
  {
    ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open(path, log_options()));
    train(*log, 3);
  }
  ASSERT_OK_AND_ASSIGN(const CommitAudit audit,
                       audit_commit_logs({empty, path}, {.complete = true}));
  EXPECT_EQ(audit.problems, 0U);
  EXPECT_FAILS(audit_commit_logs({empty}), StatusCode::kInvalidArgument, "empty");
}

TEST(CommitLog, RefusesWhatIsNoLog) {
  const TempFolder folder;
  const std::string header = kHeader;
  EXPECT_FAILS(audit_commit_logs({}), StatusCode::kInvalidArgument, "none is named");
  EXPECT_FAILS(audit_commit_logs({folder.file("none")}), StatusCode::kNotFound, "none");
  EXPECT_FAILS(audit_commit_logs({folder.write("text", "a\nb\n")}), StatusCode::kCorrupt,
               "text': line 1 is none");
  EXPECT_FAILS(audit_commit_logs({folder.write(
                   "half", header + "broken\n" + R"({"step":1,"lineage":1,"parts":[]})")}),
               StatusCode::kCorrupt, "half': line 2 is none");
  EXPECT_FAILS(audit_commit_logs({folder.write("no", R"({"step":1,"lineage":1,"parts":[]})")}),
               StatusCode::kCorrupt, "line 1");
  EXPECT_FAILS(
      audit_commit_logs({folder.write("one", header),
                         folder.write("two", R"({"samples":9,"partition_samples":4,"epochs":2})")}),
      StatusCode::kInvalidArgument, "two': it is of 9 samples");
  EXPECT_FAILS(audit_commit_logs(
                   {folder.write("zero", R"({"samples":0,"partition_samples":4,"epochs":2})")}),
               StatusCode::kInvalidArgument, "samples is 0");
}

TEST(CommitLog, SaysThatItCannotBeWritten) {
  EXPECT_FAILS(CommitLog::open("/nowhere/log", log_options()), StatusCode::kUnavailable,
               "write commit log '/nowhere/log'");
  ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open("/dev/null", log_options()));
  EXPECT_OK(log->status());
  EXPECT_FAILS(CommitLog::open("/dev/full", log_options()), StatusCode::kUnavailable, "No space");
}

}  // namespace
}  // namespace ffdl
