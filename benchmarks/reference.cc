#include "benchmarks/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/limits.h"

namespace ffdl::bench {
namespace {

constexpr int kThreadsMax = 8;
constexpr uint64_t kLargeBytes = 100'000'000;
constexpr uint64_t kSmokeBytes = 1'000'000;

}  // namespace

std::string size_name(uint64_t bytes) {
  return bytes >= 1U << 20 ? fmt::format("{}MiB", bytes >> 20) : fmt::format("{}KiB", bytes >> 10);
}

Reference measure_machine(Suite& suite) {
  Reference machine;
  machine.cpus = processors();
  machine.threads = std::min(static_cast<int>(machine.cpus.size()), kThreadsMax);
  machine.large_bytes = suite.options().smoke ? kSmokeBytes : kLargeBytes;
  const auto traffic = [&](const std::string& name, int threads) {
    Team team(threads);
    return suite.measure(
        ValueSpec{.name = name,
                  .unit = "GB/s",
                  .sample = [&]() -> Result<double> {
                    return traffic_bytes_per_s(team, machine.large_bytes) * 1e-9;
                  },
                  .samples = 5,
                  .note = fmt::format("bytes read plus bytes written, {} threads, {} MB", threads,
                                      machine.large_bytes / 1'000'000)});
  };
  machine.traffic_bytes_per_s =
      traffic(suite.name() + "/machine/traffic", machine.threads).value_or(0) * 1e9;
  machine.traffic_one_bytes_per_s =
      traffic(suite.name() + "/machine/traffic_1_thread", 1).value_or(0) * 1e9;
  const std::string round_trip = suite.name() + "/machine/round_trip";
  if (machine.cpus.size() < 2) {
    suite.missing(round_trip, "one processor: nobody is awake to answer");
    return machine;
  }
  constexpr int kRoundTrips = 1000;
  stay_on({machine.cpus[0]});
  PingPong ping_pong(machine.cpus[1]);
  const auto nanoseconds = suite.measure(
      ValueSpec{.name = round_trip,
                .unit = "ns",
                .sample = [&]() -> Result<double> {
                  return ping_pong.seconds(kRoundTrips) / kRoundTrips * 1e9;
                },
                .note = "one cache line to another process and back, each on its own processor"});
  stay_on(machine.cpus);
  machine.round_trip_s = nanoseconds.value_or(0) * 1e-9;
  return machine;
}

}  // namespace ffdl::bench
