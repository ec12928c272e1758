#include <fmt/format.h>

#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

constexpr double kCopyTarget = 0.95;

PairSpec copy_spec(const std::string& name, const Reference& machine, Turn subject, Turn copy) {
  const auto bytes = static_cast<double>(machine.large_bytes);
  const double traffic = machine.traffic_one_bytes_per_s;
  return {.name = name,
          .unit = "GB/s",
          .figure = [bytes](double seconds) { return bytes / seconds * 1e-9; },
          .subject = std::move(subject),
          .limit = std::move(copy),
          .limit_is = "memcpy between private buffers",
          // A line is fetched before it is written: three bytes move for each copied byte.
          .allowed_s = traffic > 0 ? 3 * bytes / traffic : 0,
          .target = Target{kCopyTarget},
          .note = fmt::format("{} MB, one thread", machine.large_bytes / 1'000'000)};
}

}  // namespace

void transfer_rows(Suite& suite, const Reference& machine) {
  if (!suite.wants("ps/push") && !suite.wants("ps/pull")) return;
  const uint64_t count = machine.large_bytes / sizeof(float);
  auto pair = make_pair_in_process(count, UpdateRuleKind::kSgd, machine.threads);
  if (!pair.ok()) return suite.failed("ps/push", pair.status());
  Learner& learner = *pair->learner;
  Memory own = filled_floats(count, 0.5F);
  Memory other = filled_floats(count, 0.25F);
  const Turn copy = [&]() -> Result<double> {
    return copy_s(other.data(), own.data(), own.bytes());
  };
  if (suite.wants("ps/push")) {
    const Turn push = [&]() -> Result<double> {
      Result<PushResult> pushed = PushResult::kSkipped;
      const double seconds =
          seconds_of([&] { pushed = learner.push(own.floats(), next_sample(learner)); });
      if (!pushed.ok()) return std::move(pushed).status();
      FFDL_RETURN_IF_ERROR(learner.flush(deadline_in(kPatience)));
      return seconds;
    };
    suite.measure(copy_spec("ps/push", machine, push, copy));
  }
  if (suite.wants("ps/pull")) {
    const Turn pull = [&]() -> Result<double> {
      Result<uint64_t> version = 0;
      const double seconds = seconds_of([&] { version = learner.pull(other.floats()); });
      if (!version.ok()) return std::move(version).status();
      return seconds;
    };
    suite.measure(copy_spec("ps/pull", machine, pull, copy));
  }
}

}  // namespace ffdl::bench
