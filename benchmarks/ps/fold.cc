#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

// One rule. The server folds the gradient in the learner's slot; the plain loop does the same
// arithmetic on private arrays.
struct Rule {
  std::string name;
  UpdateRuleKind kind;
  int streams;  // arrays read plus arrays written per element
  std::string loop;
};

class PlainLoop {
 public:
  PlainLoop(UpdateRuleKind kind, size_t count, int threads) : kind_(kind), team_(threads) {
    const int arrays = kind == UpdateRuleKind::kSgd ? 2 : kind == UpdateRuleKind::kMomentum ? 3 : 4;
    for (int i = 0; i < arrays; ++i) arrays_.push_back(filled_floats(count, 0.5F));
  }

  double seconds() {
    switch (kind_) {
      case UpdateRuleKind::kMomentum:
        return momentum_s(team_, arrays_[1], arrays_[2], arrays_[0], 1e-4F, 0.9F);
      case UpdateRuleKind::kAdam:
        return adam_s(team_, arrays_[1], arrays_[2], arrays_[3], arrays_[0], AdamNumbers{});
      default:
        return sgd_s(team_, arrays_[1], arrays_[0], 1e-4F);
    }
  }

 private:
  UpdateRuleKind kind_;
  Team team_;
  std::vector<Memory> arrays_;  // gradient, weights, state
};

void fold_row(Suite& suite, const Reference& machine, const Rule& rule, int threads,
              std::optional<Target> target) {
  const std::string name =
      "ps/fold_" + rule.name + (threads == 1 && machine.threads > 1 ? "/1_thread" : "");
  const bool check = rule.kind == UpdateRuleKind::kSgd && threads == machine.threads;
  if (!suite.wants(name) && !check) return;
  const uint64_t count = machine.large_bytes / sizeof(float);
  PlainLoop loop(rule.kind, count, threads);
  const double bytes = static_cast<double>(machine.large_bytes) * rule.streams;
  const double traffic =
      threads == 1 ? machine.traffic_one_bytes_per_s : machine.traffic_bytes_per_s;
  PairSpec spec{.name = name,
                .unit = "GB/s",
                .figure = [bytes](double seconds) { return bytes / seconds * 1e-9; },
                .limit = [&]() -> Result<double> { return loop.seconds(); },
                .limit_is = fmt::format("{} on private arrays, {} threads", rule.loop, threads),
                .allowed_s = traffic > 0 ? bytes / traffic : 0,
                .target = target};
  if (check) {
    PairSpec self = spec;
    self.name = "ps";
    suite.self_check(std::move(self));
  }
  if (!suite.wants(name)) return;
  auto pair = make_pair_in_process(count, rule.kind, threads);
  if (!pair.ok()) return suite.failed(name, pair.status());
  spec.subject = [&]() -> Result<double> {
    FFDL_ASSIGN_OR_RETURN([[maybe_unused]] auto slot,
                          pair->learner->gradient_slot(deadline_in(kPatience)));
    return push_and_fold(*pair->learner);
  };
  spec.note = fmt::format(
      "{} MB of weights, crash journal on; through the public API, from push to the return of "
      "flush; "
      "the gradient is already in the slot",
      machine.large_bytes / 1'000'000);
  suite.measure(std::move(spec));
}

// Runs the library's own kernel over the whole vector, block by block and in place: a fold that
// need not survive a kill of the server.
double fold_in_place_s(Team& team, const UpdateRule& rule, std::span<float> weights,
                       std::span<const float> gradient) {
  constexpr size_t kBlock = 512;
  const std::function<void(int)> work = [&](int member) {
    const auto [begin, end] = team.part(weights.size(), member);
    UpdateStep step;
    step.learning_rate = 1e-4F;
    for (size_t i = begin; i < end; i += kBlock) {
      UpdateBlock block;
      block.count = std::min(kBlock, end - i);
      block.gradient = gradient.data() + i;
      block.weights = block.new_weights = weights.data() + i;
      rule.apply(step, block);
    }
  };
  return seconds_of([&] { team.run(work); });
}

void journal_row(Suite& suite, const Reference& machine) {
  const std::string name = "ps/journal_cost";
  if (!suite.wants(name)) return;
  auto rule = make_update_rule({.kind = UpdateRuleKind::kSgd});
  auto pair = make_pair_in_process(machine.large_bytes / sizeof(float), UpdateRuleKind::kSgd,
                                   machine.threads);
  if (!rule.ok() || !pair.ok())
    return suite.failed(name, rule.ok() ? pair.status() : rule.status());
  Team team(machine.threads);
  const double bytes = 3.0 * static_cast<double>(machine.large_bytes);
  suite.measure(PairSpec{
      .name = name,
      .unit = "GB/s",
      .figure = [bytes](double seconds) { return bytes / seconds * 1e-9; },
      .subject = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN([[maybe_unused]] const auto slot,
                              pair->learner->gradient_slot(deadline_in(kPatience)));
        return push_and_fold(*pair->learner);
      },
      .limit = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const auto slot,
                              pair->learner->gradient_slot(deadline_in(kPatience)));
        return fold_in_place_s(team, **rule, pair->server->weights(), slot);
      },
      .limit_is =
          fmt::format("the same kernel in place on the same memory, no shadow and no journal, "
                      "{} threads",
                      machine.threads),
      .allowed_s = machine.traffic_bytes_per_s > 0 ? bytes / machine.traffic_bytes_per_s : 0,
      .target = Target{0.95},
      .note =
          fmt::format("{} MB, plain SGD; the journalled side through the public API, push to the "
                      "return of flush",
                      machine.large_bytes / 1'000'000)});
}

}  // namespace

void fold_rows(Suite& suite, const Reference& machine) {
  const Rule sgd{"sgd", UpdateRuleKind::kSgd, 3, "a[i] -= c*b[i]"};
  const Rule momentum{"momentum", UpdateRuleKind::kMomentum, 5,
                      "v[i] = m*v[i] + g[i]; w[i] -= c*v[i]"};
  const Rule adam{"adam", UpdateRuleKind::kAdam, 7, "Adam as one loop"};
  fold_row(suite, machine, sgd, machine.threads, Target{0.93});
  fold_row(suite, machine, momentum, machine.threads, Target{0.9});
  fold_row(suite, machine, adam, machine.threads, Target{0.9});
  journal_row(suite, machine);
  if (machine.threads == 1) return;
  for (const Rule& rule : {sgd, momentum, adam}) fold_row(suite, machine, rule, 1, std::nullopt);
}

}  // namespace ffdl::bench
