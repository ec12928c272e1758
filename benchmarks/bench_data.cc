#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>

#include "benchmarks/data/cold.h"
#include "benchmarks/data/ledgers.h"
#include "benchmarks/data/overhead.h"
#include "benchmarks/data/reading.h"
#include "benchmarks/data/ring_job.h"
#include "benchmarks/data/scale.h"
#include "benchmarks/harness/suite.h"
#include "ffdl/data/sample_ledger.h"

// './dev bench data': the cost that the ledger of samples adds to a step, its speed, and the speed
// of reading samples.
namespace ffdl::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void commit_row(Suite& suite, int members) {
  const std::string name = fmt::format("data/commit_us/{}", members);
  if (!suite.wants(name)) return;
  Ledgers job(members);
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

void indices_row(Suite& suite) {
  const std::string name = "data/indices_per_s";
  if (!suite.wants(name)) return;
  Ledgers job(1);
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
  if (argc == 4 && std::string_view(argv[1]) == "--role") {
    const std::string_view role = argv[2];
    if (role == "ledger-memory") return play_ledger_memory();
    if (role == "fill-ring") return play_fill_ring(argv[3]);
    if (role == "worker-memory") return play_worker_memory(argv[3]);
  }
  return Suite::run("data", argc, argv, [](Suite& suite) {
    Ledgers job(4);
    suite.self_check(PairSpec{.name = "data",
                              .unit = "us",
                              .figure = [](double seconds) { return 1e6 * seconds; },
                              .limit = [&] { return job.seconds_per_step(2000); },
                              .limit_is = "a step of 4 members"});
    commit_row(suite, 2);
    commit_row(suite, 8);
    commit_row(suite, 64);
    scale_rows(suite);
    indices_row(suite);
    reading_rows(suite);
    cold_rows(suite);
    overhead_rows(suite);
  });
}
