#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "conformance/store_back_ends.h"
#include "data/audit.h"
#include "ffdl/store_ledger.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kSamples = 240;

// A ledger over each store: whatever the store's way to say that somebody else was faster.
using StoreLedgerConformance = testing::OverEachStore;

struct Job {
  std::mutex mutex;
  std::map<uint64_t, CommittedStep> told;
  StoreLedgerStats stats;
};

void train(Store& store, const std::string& id, Job& job) {
  StoreLedgerOptions options;
  options.data = {.samples = kSamples, .partition_samples = 16, .epochs = 2};
  options.data.on_stable = [&job](const CommittedStep& step) {
    const std::lock_guard lock(job.mutex);
    EXPECT_EQ(job.told.try_emplace(step.step, step).first->second, step);
  };
  options.id = id;
  options.lease = 60s;  // nobody dies here, however slow the machine is
  ASSERT_OK_AND_ASSIGN(const auto ledger, StoreLedger::join(options, store, system_runtime()));
  while (!ledger->is_done()) {
    ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(4));
    if (ranges.empty()) ASSERT_OK(ledger->wait(deadline_in(60s)));
    ASSERT_OK(ledger->advance());
  }
  const std::lock_guard lock(job.mutex);
  const StoreLedgerStats stats = ledger->stats();
  job.stats.commits += stats.commits;
  job.stats.attempts += stats.attempts;
  job.stats.conflicts += stats.conflicts;
  job.stats.looks += stats.looks;
  job.stats.repeated = stats.repeated;
}

TEST_P(StoreLedgerConformance, WorkersShareEachEpoch) {
  Job job;
  {
    std::vector<std::jthread> workers;
    for (const char* id : {"a", "b", "c"}) {
      Store& store = *id == 'a' ? first_ : second_;
      workers.emplace_back([&store, id, &job] { train(store, id, job); });
    }
  }
  data::Audit audit({.samples = kSamples, .partition_samples = 16}, 2);
  for (const auto& [number, step] : job.told) audit.add(step, "a worker");
  const CommitAudit made = audit.finish({.complete = true});
  EXPECT_EQ(made.first_problems, std::vector<std::string>());
  EXPECT_EQ(made.samples, 2 * kSamples);
  EXPECT_EQ(job.stats.repeated, 0U);
  EXPECT_EQ(job.stats.commits, job.told.size());
  const auto per_commit = [&](uint64_t count) {
    return std::to_string(static_cast<double>(count) / static_cast<double>(job.stats.commits));
  };
  RecordProperty("attempts_per_commit", per_commit(job.stats.attempts));
  RecordProperty("conflicts_per_commit", per_commit(job.stats.conflicts));
  RecordProperty("looks_per_commit", per_commit(job.stats.looks));
}

INSTANTIATE_TEST_SUITE_P(BackEnds, StoreLedgerConformance, testing::all_back_ends(),
                         testing::name_of);

}  // namespace
}  // namespace ffdl
