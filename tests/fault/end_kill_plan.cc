#include <fmt/format.h>

#include <cmath>

#include "fault/end_kill_job.h"

namespace ffdl::end_kill {
namespace {

using namespace std::chrono_literals;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  bool is(double share) { return fraction() < share; }
  // Returns a number from `least` to `most`, both included.
  uint64_t number(uint64_t least, uint64_t most) { return least + random_() % (most - least + 1); }
  double fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  Duration time(Duration least, Duration most) {
    return least + std::chrono::duration_cast<Duration>((most - least) * fraction());
  }
  // Draws short times as often as long ones.
  Duration time_of_any_size(Duration least, Duration most) {
    const double ratio = static_cast<double>(most.count()) / static_cast<double>(least.count());
    return std::chrono::duration_cast<Duration>(least * std::pow(ratio, fraction()));
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + number(0, values.size() - 1));
  }

 private:
  std::mt19937_64 random_;
};

JobOptions draw_options(Draw& draw) {
  JobOptions options;
  options.members = static_cast<int>(draw.number(2, 3));
  options.min_workers = draw.is(0.15) ? 2 : 1;
  options.recovery = draw.is(0.35) ? Recovery::kConsistent : Recovery::kForward;
  options.has_checkpoints = options.recovery == Recovery::kConsistent || draw.is(0.5);
  options.at_end = draw.is(0.85);
  options.every_steps = draw.one_of<uint64_t>({0, 3, 7});
  options.bucket_bytes = draw.one_of<uint64_t>({0, 1});
  options.samples = draw.number(100, 250);
  options.epochs = draw.number(1, 2);
  options.lease = draw.time(300ms, 500ms);
  options.step_time = draw.time(0ms, 6ms);
  return options;
}

Again draw_again(const JobOptions& options, Draw& draw) {
  if (options.min_workers > 1) return Again::kSoon;
  return draw.one_of({Again::kNever, Again::kSoon, Again::kAfterLease, Again::kAfterEnd});
}

Kind draw_kind(const JobOptions& options, Draw& draw) {
  const auto percent = draw.number(0, 99);
  if (percent < 34) return Kind::kKill;
  if (percent < 44) return Kind::kKillMost;
  if (percent < 56) return Kind::kKillServer;
  if (percent < 62) return Kind::kKillAll;
  if (percent < 74) return Kind::kStop;
  if (options.min_workers > 1) return Kind::kKill;  // the others could not end without that member
  if (percent < 76) return Kind::kStopLong;
  if (percent < 86) return Kind::kLeave;
  return Kind::kNewcomer;
}

Disturbance draw_disturbance(const JobOptions& options, Draw& draw) {
  const uint64_t total = options.samples * options.epochs;
  Disturbance one;
  one.kind = draw_kind(options, draw);
  one.moment = draw.one_of({Moment::kLastSteps, Moment::kInFinish, Moment::kInFinish,
                            Moment::kAfterFinish, Moment::kAfterFinish});
  if (one.kind == Kind::kNewcomer && draw.is(0.4)) one.moment = Moment::kAllAreEnded;
  if (one.kind == Kind::kLeave) one.moment = Moment::kLastSteps;
  one.committed = total * draw.number(50, 100) / 100;
  one.delay = draw.time_of_any_size(50us, one.moment == Moment::kLastSteps ? 20ms : 200ms);
  one.stop_time = one.kind == Kind::kStopLong
                      ? kFence + 200ms
                      : draw.time(options.lease * 11 / 10, options.lease * 5 / 2);
  one.again = draw_again(options, draw);
  one.again_delay = draw.time_of_any_size(1ms, 100ms);
  if (one.again == Again::kAfterLease) one.again_delay += options.lease;
  one.is_reported = draw.is(0.5);
  return one;
}

}  // namespace

std::string JobOptions::describe() const {
  return fmt::format(
      "{} members, at least {}, {}, checkpoints {}, bucket_bytes {}, {} epochs of {} samples, "
      "lease {} ms, steps up to {:.1f} ms",
      members, min_workers, recovery == Recovery::kConsistent ? "consistent" : "forward",
      !has_checkpoints
          ? std::string("none")
          : fmt::format("every {} steps{}", every_steps, at_end ? " and at the end" : ""),
      bucket_bytes, epochs, samples, lease / 1ms, static_cast<double>(step_time.count()) / 1e6);
}

LedgerOptions data_of(const JobOptions& options) {
  return {.samples = options.samples, .partition_samples = 32, .epochs = options.epochs, .seed = 5};
}

Plan draw_plan(uint64_t seed) {
  Draw draw(seed);
  Plan plan;
  plan.options = draw_options(draw);
  const uint64_t disturbances = draw.number(1, 3);
  while (plan.disturbances.size() < disturbances) {
    plan.disturbances.push_back(draw_disturbance(plan.options, draw));
  }
  if (draw.is(0.4)) {
    Disturbance late;
    late.kind = Kind::kNewcomer;
    late.moment = Moment::kAllAreEnded;
    plan.disturbances.push_back(late);
  }
  return plan;
}

}  // namespace ffdl::end_kill
