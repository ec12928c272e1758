#include <fmt/format.h>

#include <atomic>

#include "benchmarks/harness/resident.h"
#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

constexpr uint64_t kParameters = 1024;  // 4 KiB
constexpr int kPushes = 16;             // per turn
constexpr int kWakingPushes = 4;
constexpr int kRoundTripsPerPush = 10;

// Writes a gradient of ones, pushes it and reads the last weight until it has changed. Returns the
// seconds from the call of push until then.
Result<double> push_until_seen(Learner& learner) {
  FFDL_ASSIGN_OR_RETURN(const auto slot, learner.gradient_slot(deadline_in(kPatience)));
  std::ranges::fill(slot, 1.0F);
  const std::atomic_ref<float> last(const_cast<float&>(learner.live_weights().back()));
  const float before = last.load(std::memory_order_relaxed);
  Result<PushResult> pushed = PushResult::kSkipped;
  const SampleRange samples = next_sample(learner);
  const double seconds = seconds_of([&] {
    pushed = learner.push(Gradient::slot(), samples);
    while (pushed.ok() && *pushed == PushResult::kPublished &&
           last.load(std::memory_order_relaxed) == before) {
    }
  });
  if (!pushed.ok()) return std::move(pushed).status();
  if (*pushed != PushResult::kPublished) {
    return Status(StatusCode::kInternal, "push to an idle server: the gradient was not published");
  }
  // The weight changes before the server frees the slot; the next push must find it free.
  FFDL_RETURN_IF_ERROR(learner.flush(deadline_in(kPatience)));
  return seconds;
}

}  // namespace

void latency_rows(Suite& suite, const Reference& machine) {
  const std::string name = "ps/push_latency";
  if (!suite.wants(name)) return;
  if (machine.cpus.size() < 2)
    return suite.missing(name, "one processor: the server cannot be awake");
  const std::string segment = segment_name();
  auto server = Resident::start_self(
      {"--role", "server", segment, std::to_string(kParameters), std::to_string(machine.cpus[1])});
  if (!server.ok()) return suite.failed(name, server.status());
  if (auto ready = (*server)->ask(""); !ready.ok()) return suite.failed(name, ready.status());
  stay_on({machine.cpus[0]});
  auto learner = Learner::attach(segment, deadline_in(kPatience));
  if (!learner.ok()) return suite.failed(name, learner.status());
  PingPong ping_pong(machine.cpus[1]);
  const Turn pushes = [&]() -> Result<double> {
    double seconds = 0;
    for (int i = 0; i < kWakingPushes + kPushes; ++i) {
      FFDL_ASSIGN_OR_RETURN(const double one, push_until_seen(**learner));
      if (i >= kWakingPushes) seconds += one;
    }
    return seconds;
  };
  const Turn round_trips = [&]() -> Result<double> {
    return ping_pong.seconds(kPushes * kRoundTripsPerPush);
  };
  suite.measure(PairSpec{
      .name = name,
      .unit = "us",
      .figure = [](double seconds) { return seconds / kPushes * 1e6; },
      .subject = pushes,
      .limit = round_trips,
      .limit_is =
          fmt::format("{} round trips of a cache line between two processes", kRoundTripsPerPush),
      .pairs = 2000,
      .warm_up = 50,
      .allowed_s = machine.round_trip_s * kPushes * kRoundTripsPerPush,
      .target = Target{1},
      .note =
          fmt::format("4 KiB, server in another process and awake, from the call of push until the "
                      "learner sees the last weight changed; one round trip {:.0f} ns in this run",
                      machine.round_trip_s * 1e9)});
  stay_on(machine.cpus);
}

}  // namespace ffdl::bench
