#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
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
    auto result = learner.push(Gradient::slot(), next_sample(learner));
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
