#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "benchmarks/dense_net.h"
#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

constexpr int kRowsPerSample = 4;
// Bytes moved per byte of the model and mini-batch. The learner reads weights and writes a
// gradient; the server reads gradient and weights and writes weights.
constexpr double kBytesPerModelByte = 5;
constexpr double kTurnSeconds = 0.01;

struct Shape {
  int megabytes;
  int layers;
  int width;
};

// Trains `steps` mini-batches in the steady state. One mini-batch before them does not count, and
// the remaining gradients are folded off the clock.
Result<double> train(Learner& learner, DenseNet& net, int steps) {
  std::chrono::steady_clock::time_point begin;
  for (int step = -1; step < steps; ++step) {
    if (step == 0) begin = std::chrono::steady_clock::now();
    FFDL_ASSIGN_OR_RETURN(const auto slot, learner.gradient_slot(deadline_in(kPatience)));
    net.compute(learner.live_weights(), slot);
    FFDL_RETURN_IF_ERROR(learner.push(Gradient::slot(), next_sample(learner)).status());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  FFDL_RETURN_IF_ERROR(learner.flush(deadline_in(kPatience)));
  return seconds.count();
}

double ideal(DenseNet& net, const Memory& weights, const Memory& gradient, int steps) {
  net.compute(weights.floats(), gradient.floats());
  return seconds_of([&] {
    for (int step = 0; step < steps; ++step) net.compute(weights.floats(), gradient.floats());
  });
}

Result<Pair> make_trainer(const DenseNet& net, int server_cpu, int learner_cpu) {
  ParameterServerOptions options;
  options.parameters = net.parameters();
  options.rule = {.kind = UpdateRuleKind::kSgd,
                  .learning_rate = 1e-9F};  // the values must not drift
  options.non_finite = NonFinite::kAccept;
  options.learners_max = 1;
  Pair pair;
  stay_on({server_cpu});
  FFDL_ASSIGN_OR_RETURN(pair.server, ParameterServer::create(options));
  net.initialise(pair.server->weights());
  FFDL_RETURN_IF_ERROR(pair.server->start());
  stay_on({learner_cpu});
  FFDL_ASSIGN_OR_RETURN(pair.learner, Learner::attach(*pair.server, deadline_in(kPatience)));
  return pair;
}

void train_row(Suite& suite, const Reference& machine, const Shape& shape, int mini_batch) {
  const std::string name = fmt::format("ps/train_vs_ideal/{}/{}", shape.megabytes, mini_batch);
  if (!suite.wants(name)) return;
  if (machine.cpus.size() < 2) return suite.missing(name, "one processor: nothing can overlap");
  DenseNet net(shape.layers, shape.width, mini_batch * kRowsPerSample);
  const auto bytes = static_cast<double>(net.parameters() * sizeof(float));
  Memory weights(net.parameters() * sizeof(float));
  Memory gradient = filled_floats(net.parameters(), 0);
  net.initialise(weights.floats());
  Team both(2);
  const double traffic = traffic_bytes_per_s(both, net.parameters() * sizeof(float));
  auto pair = make_trainer(net, machine.cpus[1], machine.cpus[0]);
  if (!pair.ok()) {
    stay_on(machine.cpus);
    return suite.failed(name, pair.status());
  }
  std::vector<double> alone;
  for (int i = 0; i < 5; ++i) alone.push_back(ideal(net, weights, gradient, 1));
  const double step_s = median(std::move(alone));
  const double bound = std::min(1.0, traffic * step_s / (kBytesPerModelByte * bytes));
  const int steps = std::clamp(static_cast<int>(std::ceil(kTurnSeconds / step_s)), 2, 16);
  suite.measure(PairSpec{
      .name = name,
      .unit = "samples/s",
      .figure = [=](double seconds) { return mini_batch * steps / seconds; },
      .subject = [&] { return train(*pair->learner, net, steps); },
      .limit = [&]() -> Result<double> { return ideal(net, weights, gradient, steps) / bound; },
      .limit_is =
          fmt::format("computing alone, times {:.3f} (min(1, traffic * t / (5 * model)))", bound),
      .target = Target{0.97},
      .note = fmt::format(
          "{} dense layers of {} by {}, {} rows per sample, {:.1f} ms per mini-batch "
          "alone, {:.1f} GB/s traffic at this size, one thread each on its own "
          "processor, gradient in place, live weights",
          shape.layers, shape.width, shape.width, kRowsPerSample, step_s * 1e3, traffic * 1e-9)});
  stay_on(machine.cpus);
}

}  // namespace

void train_rows(Suite& suite, const Reference& machine) {
  const bool smoke = suite.options().smoke;
  const Shape small = smoke ? Shape{10, 2, 64} : Shape{10, 38, 256};
  const Shape large = smoke ? Shape{80, 4, 64} : Shape{80, 19, 1024};
  for (const Shape& shape : {small, large}) {
    for (int mini_batch : {1, 16}) train_row(suite, machine, shape, mini_batch);
  }
}

}  // namespace ffdl::bench
