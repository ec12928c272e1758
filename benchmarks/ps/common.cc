#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

constexpr int kThreadsMax = 8;
constexpr uint64_t kLargeBytes = 100'000'000;
constexpr uint64_t kSmokeBytes = 1'000'000;

}  // namespace

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
  machine.traffic_bytes_per_s = traffic("ps/machine/traffic", machine.threads).value_or(0) * 1e9;
  machine.traffic_one_bytes_per_s = traffic("ps/machine/traffic_1_thread", 1).value_or(0) * 1e9;
  if (machine.cpus.size() < 2) {
    suite.missing("ps/machine/round_trip", "one processor: nobody is awake to answer");
    return machine;
  }
  constexpr int kRoundTrips = 1000;
  stay_on({machine.cpus[0]});
  PingPong ping_pong(machine.cpus[1]);
  const auto nanoseconds = suite.measure(
      ValueSpec{.name = "ps/machine/round_trip",
                .unit = "ns",
                .sample = [&]() -> Result<double> {
                  return ping_pong.seconds(kRoundTrips) / kRoundTrips * 1e9;
                },
                .note = "one cache line to another process and back, each on its own processor"});
  stay_on(machine.cpus);
  machine.round_trip_s = nanoseconds.value_or(0) * 1e-9;
  return machine;
}

Result<Pair> make_pair_in_process(uint64_t parameters, UpdateRuleKind rule, int threads) {
  ParameterServerOptions options;
  options.parameters = parameters;
  options.rule = {.kind = rule, .learning_rate = 1e-4F};
  options.non_finite = NonFinite::kAccept;
  options.threads = threads;
  options.learners_max = 1;
  Pair pair;
  FFDL_ASSIGN_OR_RETURN(pair.server, ParameterServer::create(options));
  std::ranges::fill(pair.server->weights(), 1.0F);
  FFDL_RETURN_IF_ERROR(pair.server->start());
  FFDL_ASSIGN_OR_RETURN(pair.learner, Learner::attach(*pair.server, deadline_in(kPatience)));
  for (int buffer = 0; buffer < 2; ++buffer) {
    FFDL_ASSIGN_OR_RETURN(const auto slot, pair.learner->gradient_slot(deadline_in(kPatience)));
    std::ranges::fill(slot, 0.5F);
    FFDL_ASSIGN_OR_RETURN([[maybe_unused]] const double seconds, push_and_fold(*pair.learner));
  }
  return pair;
}

Result<double> push_and_fold(Learner& learner) {
  Status folded;
  PushResult pushed{};
  const double seconds = seconds_of([&] {
    auto result = learner.push(SampleRange{});
    if (result.ok()) pushed = *result;
    folded = result.ok() ? learner.flush(deadline_in(kPatience)) : std::move(result).status();
  });
  FFDL_RETURN_IF_ERROR(std::move(folded));
  if (pushed == PushResult::kPublished) return seconds;
  return Status(StatusCode::kInternal, "push to an idle server: the gradient was not published");
}

std::string segment_name() {
  static std::atomic<int> count{0};
  return fmt::format("bench-{}-{}", getpid(), count++);
}

}  // namespace ffdl::bench
