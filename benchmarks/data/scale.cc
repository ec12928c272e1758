#include "benchmarks/data/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/data/ledgers.h"
#include "benchmarks/data/reading_job.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/limits.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/store.h"

namespace ffdl::bench {
namespace {

using namespace std::chrono_literals;

// Returns a line of /proc/self/status, "VmHWM" or similar, in MiB.
double own_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}

double p99_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

void resume_rows(Suite& suite) {
  const std::string name = "data/resume_ms";
  if (!suite.wants(name)) return;
  Ledgers job(4);
  const int steps = suite.options().smoke ? 10 : 10'000;
  for (int i = 0; i < steps; ++i) {
    if (const auto step = job.step(SampleLedger::kAll); !step.ok()) {
      return suite.failed(name, step.status());
    }
  }
  size_t state = 0;
  suite.measure(ValueSpec{.name = name,
                          .unit = "ms",
                          .sample = [&]() -> Result<double> {
                            FFDL_RETURN_IF_ERROR(job.seconds_per_step(10).status());
                            const auto saved = job.one().participant()->save();
                            state = saved.size();
                            const auto begin = std::chrono::steady_clock::now();
                            FFDL_RETURN_IF_ERROR(job.one().participant()->restore(saved));
                            FFDL_RETURN_IF_ERROR(job.one().take(256).status());
                            const auto end = std::chrono::steady_clock::now();
                            return 1e3 * std::chrono::duration<double>(end - begin).count();
                          },
                          .samples = suite.options().smoke ? 3 : 30,
                          .target = Target{5, true},
                          .note = "restore of a state saved within an epoch of 10^9 samples, and "
                                  "the first take, 4 members"});
  suite.measure(ValueSpec{.name = "data/state_bytes",
                          .unit = "B",
                          .sample = [&] { return Result<double>(static_cast<double>(state)); },
                          .samples = 3,
                          .target = Target{1024, true},
                          .note = "that state: 4 members with 2 partitions each"});
}

// Measures the memory that grows with the data set, at a member that knows as much as a leader.
void ledger_memory_row(Suite& suite) {
  const std::string name = "data/leader_mib";
  if (!suite.wants(name)) return;
  suite.measure(ValueSpec{
      .name = name,
      .unit = "MiB",
      .sample = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const auto child,
                              Resident::start_self({"--role", "ledger-memory", "-"}));
        return child->ask_number("");
      },
      .samples = 3,
      .target = Target{16, true},
      .note = "the ledger of one of 64 members after 1000 steps in an epoch of 10^9 samples, as "
              "a 64th of what a process with all of them grows by"});
}

// Measures the assignment of partitions. No member answers requests for them: each computes the
// assignment from the records that travel with the step.
void assign_rows(Suite& suite) {
  const std::string name = "data/assign_per_s";
  const std::string p99 = "data/assign_p99";
  constexpr int kMembers = 4;
  Ledgers job(kMembers);
  const int steps = suite.options().smoke ? 20 : 2000;
  const auto steps_of = [&]() -> Result<std::vector<double>> {
    std::vector<double> seconds;
    for (int i = 0; i < steps; ++i) {
      FFDL_ASSIGN_OR_RETURN(const double one, job.step(large_ledger().partition_samples));
      seconds.push_back(one);
    }
    return seconds;
  };
  if (suite.wants(name)) {
    suite.measure(ValueSpec{.name = name,
                            .unit = "1/s",
                            .sample = [&]() -> Result<double> {
                              FFDL_ASSIGN_OR_RETURN(const auto seconds, steps_of());
                              double sum = 0;
                              for (const double one : seconds) sum += one;
                              return kMembers * static_cast<double>(seconds.size()) / sum;
                            },
                            .samples = suite.options().smoke ? 3 : 30,
                            .target = Target{200'000, false},
                            .note = "partitions that one of 4 members commits and hands out, by "
                                    "itself, one to each member in each step"});
  }
  if (!suite.wants(p99)) return;
  LoopbackTrips loopback(64);
  std::vector<double> trips;
  for (int i = 0; i < steps; ++i) trips.push_back(loopback.seconds(1));
  const double trip_us = 1e6 * p99_of(trips);
  suite.measure(ValueSpec{.name = p99,
                          .unit = "us",
                          .sample = [&]() -> Result<double> {
                            FFDL_ASSIGN_OR_RETURN(auto seconds, steps_of());
                            return 1e6 * p99_of(std::move(seconds));
                          },
                          .samples = suite.options().smoke ? 3 : 30,
                          .target = Target{3 * trip_us, true},
                          .note = fmt::format("of such steps; a round trip over the loopback in "
                                              "this run: {:.1f} us",
                                              trip_us)});
}

// Measures steps, not seconds: a step takes equally long for both, and the fast member uses three
// times the samples.
void fast_and_slow_row(Suite& suite) {
  const std::string name = "data/fast_and_slow";
  if (!suite.wants(name)) return;
  constexpr std::array<uint64_t, 2> kCounts = {192, 64};
  constexpr uint64_t kSamples = 200'000;
  Ledgers job(2, {.samples = kSamples, .partition_samples = 4096, .epochs = 0});
  suite.measure(ValueSpec{
      .name = name,
      .unit = "",
      .sample = [&]() -> Result<double> {
        int steps = 0;
        for (const uint64_t epoch = job.one().epoch(); job.one().epoch() == epoch; ++steps) {
          FFDL_RETURN_IF_ERROR(job.step(kCounts).status());
        }
        const auto ideal = static_cast<double>(kSamples) / (kCounts[0] + kCounts[1]);
        return steps / ideal;
      },
      .samples = suite.options().smoke ? 3 : 30,
      .target = Target{1.05, true},
      .note = "steps of an epoch of 200,000 samples over the least that there can be, two members, "
              "one of which uses three times as many in a step; halves made before take 2.0"});
}

// The parameters of members without a session, each of which proceeds on its own.
constexpr uint64_t kBatch = 16;
constexpr std::array<std::chrono::microseconds, 2> kTimeOfBatch = {200us, 600us};

// Works off the ledger by a clock that does not wait for the processors. So a delay of one
// mini-batch on a busy machine is not added to the next.
Status work_off(SampleLedger& ledger, std::chrono::microseconds time_of_batch) {
  auto end = std::chrono::steady_clock::now();
  while (!ledger.is_done()) {
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take(kBatch));
    if (ranges.empty()) {
      FFDL_RETURN_IF_ERROR(ledger.wait(deadline_in(120s)));
      end = std::chrono::steady_clock::now();
      continue;
    }
    end += time_of_batch * ledger.taken() / kBatch;
    std::this_thread::sleep_until(end);
    FFDL_RETURN_IF_ERROR(ledger.commit());
  }
  return {};
}

Result<double> seconds_together(const LedgerOptions& data) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("mem://", system_runtime()));
  std::array<std::unique_ptr<SampleLedger>, 2> ledgers;
  for (size_t i = 0; i < ledgers.size(); ++i) {
    FFDL_ASSIGN_OR_RETURN(ledgers[i],
                          make_store_ledger(data, {.id = fmt::format("w{}", i)}, *store));
  }
  std::array<Status, 2> ends;
  const double seconds = seconds_of([&] {
    std::jthread slow([&] { ends[1] = work_off(*ledgers[1], kTimeOfBatch[1]); });
    ends[0] = work_off(*ledgers[0], kTimeOfBatch[0]);
  });
  for (const Status& end : ends) FFDL_RETURN_IF_ERROR(Status(end));
  return seconds;
}

void fast_and_slow_seconds_row(Suite& suite) {
  const std::string name = "data/fast_and_slow/seconds";
  if (!suite.wants(name)) return;
  const uint64_t samples = suite.options().smoke ? 1'000 : 20'000;
  const auto per_second = [](std::chrono::microseconds time) {
    return kBatch / std::chrono::duration<double>(time).count();
  };
  const double ideal =
      static_cast<double>(samples) / (per_second(kTimeOfBatch[0]) + per_second(kTimeOfBatch[1]));
  suite.measure(ValueSpec{
      .name = name,
      .unit = "",
      .sample = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const double seconds,
                              seconds_together({.samples = samples, .partition_samples = 256}));
        return seconds / ideal;
      },
      .samples = suite.options().smoke ? 3 : 30,
      .target = Target{1.05, true},
      .note = fmt::format("an epoch of {} samples over the least time at their joint speed, two "
                          "workers with a ledger in a store, whose mini-batches of {} take 200 and "
                          "600 us; halves made before take 2.0",
                          samples, kBatch)});
}

void worker_memory_row(Suite& suite) {
  const std::string name = "data/worker_memory";
  if (!suite.wants(name)) return;
  const auto file = RecordFile::make(suite.options().smoke ? tiny(kSmall) : kSmall);
  if (!file.ok()) return suite.failed(name, file.status());
  suite.measure(ValueSpec{.name = name,
                          .unit = "MiB",
                          .sample = [&]() -> Result<double> {
                            FFDL_ASSIGN_OR_RETURN(
                                const auto child,
                                Resident::start_self({"--role", "worker-memory", (*file)->path()}));
                            return child->ask_number("");
                          },
                          .samples = 3,
                          .target = Target{16 + 16, true},
                          .note = "most that a process held which reads two epochs of small "
                                  "records with the default access: 16 MiB, and 16 that it may "
                                  "read ahead"});
}

}  // namespace

void scale_rows(Suite& suite) {
  resume_rows(suite);
  ledger_memory_row(suite);
  assign_rows(suite);
  fast_and_slow_row(suite);
  fast_and_slow_seconds_row(suite);
  worker_memory_row(suite);
}

int play_ledger_memory() {
  const double before = own_mib("VmRSS");
  Ledgers job(64);
  for (int i = 0; i < 1000; ++i) {
    if (!job.step(SampleLedger::kAll).ok()) return 1;
  }
  answer(fmt::format("{}", (own_mib("VmRSS") - before) / 64));
  wait_for_the_end();
  return 0;
}

int play_worker_memory(const std::string& path) {
  const auto reading = Reading::open(
      path, kSmall, {.pipeline = {.threads = 1, .read_ahead_bytes = uint64_t{16} << 20}});
  if (!reading.ok()) return 1;
  for (int epoch = 0; epoch < 2; ++epoch) {
    if (!(*reading)->order().ok()) return 1;
  }
  answer(fmt::format("{}", own_mib("VmHWM")));
  wait_for_the_end();
  return 0;
}

}  // namespace ffdl::bench
