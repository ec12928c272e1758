#include "ffdl/data/commit_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/low_limit.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

constexpr const char* kHeader = "{\"samples\":10,\"partition_samples\":4,\"epochs\":2}\n";

LedgerOptions log_options() { return {.samples = 10, .partition_samples = 4, .epochs = 2}; }

// Writes to a log the steps of a ledger of one member over two epochs.
void train(CommitLog& log, uint64_t batch) {
  LedgerMemberOptions member;
  member.on_stable = [&](const CommittedStep& step) { log.write(step); };
  ASSERT_OK_AND_ASSIGN(const auto ledger, make_session_ledger(log_options(), member));
  World world;
  world.members = {{"w0", 1}};
  ledger->participant()->world_changed(world);
  std::vector<std::byte> record(ledger->participant()->record_bytes());
  for (uint64_t step = 1; !ledger->is_done(); ++step) {
    ASSERT_OK(ledger->take(batch));
    ledger->participant()->write_record(record);
    ledger->participant()->applied(step, StepRecords(record, record.size(), record.size()));
    ledger->participant()->stable(step);
  }
}

TEST(CommitLog, WhatALedgerTellsIsProved) {
  const TempFolder folder;
  for (const char* name : {"a", "b"}) {  // two members log the same steps
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

// A process that was killed between creating its log and writing to it leaves an empty log.
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
               "text': line 1 is not");
  EXPECT_FAILS(audit_commit_logs({folder.write(
                   "half", header + "broken\n" + R"({"step":1,"lineage":1,"parts":[]})")}),
               StatusCode::kCorrupt, "half': line 2 is not");
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

// The write is on the user's thread, whose program does not handle the signal.
TEST(CommitLog, ALimitOfSizesIsExhaustedAndTheProcessLives) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open(folder.file("log"), log_options()));
  {
    const testing::LowLimit full(RLIMIT_FSIZE, 60);
    train(*log, 3);
  }
  EXPECT_FAILS(log->status(), StatusCode::kExhausted, "ulimit -f");
}

TEST(CommitLog, DoesNotWriteThroughALink) {
  const TempFolder folder;
  const std::string victim = folder.write("victim", "precious");
  std::filesystem::create_symlink(victim, folder.file("log"));
  EXPECT_FAILS(CommitLog::open(folder.file("log"), log_options()), StatusCode::kInvalidArgument,
               "it is a symbolic link");
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
}

TEST(CommitLog, RefusesOptionsOfNoLedger) {
  const TempFolder folder;
  EXPECT_FAILS(CommitLog::open(folder.file("log"), {.samples = 0, .partition_samples = 4}),
               StatusCode::kInvalidArgument, "samples is 0");
  EXPECT_FALSE(std::filesystem::exists(folder.file("log")));
}

TEST(CommitLog, SaysThatItCannotBeWritten) {
  EXPECT_FAILS(CommitLog::open("/nowhere/log", log_options()), StatusCode::kUnavailable,
               "write commit log '/nowhere/log'");
  ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open("/dev/null", log_options()));
  EXPECT_OK(log->status());
  EXPECT_FAILS(CommitLog::open("/dev/full", log_options()), StatusCode::kExhausted, "make room");
}

}  // namespace
}  // namespace ffdl
