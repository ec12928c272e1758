#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/data/reading.h"
#include "benchmarks/harness/suite.h"
#include "ffdl/partition_ledger.h"

// './dev bench data': what the ledger of samples adds to a step, how fast it names samples, and how
// fast they are read.
namespace ffdl::bench {
namespace {

// Of a thousand million samples, so that whatever grew with the data set would be seen.
PartitionLedgerOptions options() {
  return {.samples = 1'000'000'000,
          .partition_samples = 4096,
          .epochs = 0,
          .shuffle = Shuffle::kSamples};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// One of the members of a job, and what all of them say.
class Job {
 public:
  explicit Job(int members) {
    World world;
    for (int rank = 0; rank < members; ++rank) {
      world.members.push_back({fmt::format("worker-{}", rank), 1});
    }
    for (world.rank = 0; world.rank < members; ++world.rank) {
      ledgers_.push_back(std::move(PartitionLedger::create(options())).value());
      ledgers_.back()->world_changed(world);
    }
    records_.resize(ledgers_.size() * ledgers_[0]->record_bytes());
  }

  PartitionLedger& one() { return *ledgers_[0]; }

  // Mean seconds in which one member takes, describes and applies a step; the others' part of it is
  // not in it.
  Result<double> seconds_per_step(int steps) {
    const size_t bytes = one().record_bytes();
    double seconds = 0;
    for (int i = 0; i < steps; ++i) {
      for (size_t rank = ledgers_.size(); rank-- > 0;) {
        const auto begin = std::chrono::steady_clock::now();
        FFDL_RETURN_IF_ERROR(ledgers_[rank]->take(256).status());
        ledgers_[rank]->describe(std::span(records_).subspan(rank * bytes, bytes));
        if (rank == 0) seconds += seconds_since(begin);
      }
      ++step_;
      for (size_t rank = 0; rank < ledgers_.size(); ++rank) {
        const auto begin = std::chrono::steady_clock::now();
        ledgers_[rank]->applied(step_, StepRecords(records_, bytes, bytes));
        if (rank == 0) seconds += seconds_since(begin);
      }
    }
    return seconds / steps;
  }

 private:
  std::vector<std::unique_ptr<PartitionLedger>> ledgers_;
  std::vector<std::byte> records_;
  uint64_t step_ = 0;
};

void commit_row(Suite& suite, int members) {
  const std::string name = fmt::format("data/commit_us/{}", members);
  if (!suite.wants(name)) return;
  Job job(members);
  suite.measure(ValueSpec{.name = name,
                          .unit = "us",
                          .sample = [&]() -> Result<double> {
                            FFDL_ASSIGN_OR_RETURN(const double seconds, job.seconds_per_step(100));
                            return 1e6 * seconds;
                          },
                          .samples = suite.options().smoke ? 3 : 30,
                          .target = Target{50, true},
                          .note = "take, describe and applied of one member in one step"});
}

void resume_row(Suite& suite) {
  const std::string name = "data/resume_us";
  if (!suite.wants(name)) return;
  Job job(4);
  suite.measure(ValueSpec{.name = name,
                          .unit = "us",
                          .sample = [&]() -> Result<double> {
                            FFDL_RETURN_IF_ERROR(job.seconds_per_step(10).status());
                            const auto saved = job.one().save();
                            const auto begin = std::chrono::steady_clock::now();
                            FFDL_RETURN_IF_ERROR(job.one().restore(saved));
                            FFDL_RETURN_IF_ERROR(job.one().take(256).status());
                            return 1e6 * seconds_since(begin);
                          },
                          .samples = suite.options().smoke ? 3 : 30,
                          .target = Target{5000, true},
                          .note = "restore of a saved state and the first take, 4 members"});
}

void indices_row(Suite& suite) {
  const std::string name = "data/indices_per_s";
  if (!suite.wants(name)) return;
  Job job(1);
  const auto ranges = job.one().take();
  if (!ranges.ok()) return suite.failed(name, ranges.status());
  suite.measure(ValueSpec{.name = name,
                          .unit = "1/s",
                          .sample = [&]() -> Result<double> {
                            const auto begin = std::chrono::steady_clock::now();
                            FFDL_ASSIGN_OR_RETURN(const auto all,
                                                  job.one().sample_indices(*ranges));
                            return static_cast<double>(all.size()) / seconds_since(begin);
                          },
                          .samples = suite.options().smoke ? 3 : 30,
                          .target = Target{12e6, false},
                          .note = "shuffled within partitions of 4096"});
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc == 4 && std::string_view(argv[1]) == "--role") return play_first_batch(argv[3]);
  return Suite::run("data", argc, argv, [](Suite& suite) {
    Job job(4);
    suite.self_check(PairSpec{.name = "data",
                              .unit = "us",
                              .figure = [](double seconds) { return 1e6 * seconds; },
                              .limit = [&] { return job.seconds_per_step(20); },
                              .limit_is = "a step of 4 members"});
    commit_row(suite, 2);
    commit_row(suite, 8);
    commit_row(suite, 64);
    resume_row(suite);
    indices_row(suite);
    reading_rows(suite);
  });
}
