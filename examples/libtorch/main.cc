// Trains a libtorch model with workers that join and leave.
//
//   ffdl run --workers 1:2 --job spirals elastic_libtorch
//
// starts two workers, and `ffdl scale spirals 1` takes one away while they train. Started by itself
// the program is a job of its own. One worker trains, and a second one joins it on another thread
// and leaves again. Both sort points of two spirals. Each step uses the same points for any number
// of workers.
#include <torch/nn.h>
#include <torch/optim/sgd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/launch/environment.h"
#include "ffdl/session.h"
#include "ffdl/store.h"

namespace {

using ffdl::Result;
using ffdl::Status;

constexpr int64_t kPoints = 2000;
constexpr uint64_t kBatch = 100;
constexpr uint64_t kEpochs = 60;

struct Points {
  torch::Tensor places;  // float32[n, 2]
  torch::Tensor arms;    // float32[n, 1]: 0 or 1, the spiral of a point
};

Points points_of(const std::vector<uint64_t>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  Points points{torch::empty({count, 2}), torch::empty({count, 1})};
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<double>(numbers[static_cast<size_t>(i)]);
    const double arm = std::fmod(number, 2);
    const double along = std::sqrt(number / kPoints);
    const double angle = 7 * along + M_PI * arm;
    points.places[i][0] = 2 * along * std::cos(angle);
    points.places[i][1] = 2 * along * std::sin(angle);
    points.arms[i][0] = arm;
  }
  return points;
}

// Makes a torch::nn module and its optimizer the state that a session trains.
class Model final : public ffdl::Trainable {
 public:
  Model()
      : net_(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 32),
             torch::nn::Tanh(), torch::nn::Linear(32, 1)),
        parameters_(net_->parameters()),
        optimizer_(parameters_, torch::optim::SGDOptions(0.1).momentum(0.9)) {
    begin_at_known_weights();
    int64_t size = 0;
    for (const auto& parameter : parameters_) size += parameter.numel();
    gradient_ = torch::zeros({size});
    int64_t begin = 0;
    for (auto& parameter : parameters_) {
      // All gradients are in one array, so that one sum averages them.
      parameter.mutable_grad() = gradient_.narrow(0, begin, parameter.numel()).view_as(parameter);
      begin += parameter.numel();
    }
    optimizer_.step();  // with gradients of zero, so that the momentum has its memory
  }

  // Computes the mean gradient over these samples.
  void compute(const std::vector<uint64_t>& numbers) {
    const Points points = points_of(numbers);
    gradient_.zero_();
    torch::nn::functional::binary_cross_entropy_with_logits(net_->forward(points.places),
                                                            points.arms)
        .backward();
  }

  double accuracy() {
    const torch::NoGradGuard no_gradients;
    std::vector<uint64_t> all(kPoints);
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const Points points = points_of(all);
    return (net_->forward(points.places) > 0)
        .eq(points.arms > 0.5)
        .to(torch::kFloat32)
        .mean()
        .item<double>();
  }

  std::vector<ffdl::Buffer> state() override {
    std::vector<ffdl::Buffer> buffers;
    for (const auto& parameter : parameters_) {
      buffers.push_back(buffer_of(parameter));
      auto& kept = *optimizer_.state().at(parameter.unsafeGetTensorImpl());
      buffers.push_back(
          buffer_of(static_cast<torch::optim::SGDParamState&>(kept).momentum_buffer()));
    }
    return buffers;
  }
  std::vector<ffdl::Buffer> gradients() override { return {buffer_of(gradient_)}; }
  void apply() override { optimizer_.step(); }

 private:
  static ffdl::Buffer buffer_of(const torch::Tensor& tensor) {
    return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
  }

  // Gives all workers the same initial weights, also two of one process, which share libtorch's
  // generator.
  void begin_at_known_weights() {
    const torch::NoGradGuard no_gradients;
    double number = 0;
    for (auto& parameter : parameters_) {
      auto values = parameter.view(-1);
      const double width = 1.5 / std::sqrt(static_cast<double>(parameter.size(-1)));
      for (int64_t i = 0; i < values.numel(); ++i) values[i] = width * std::sin(++number * 12.9898);
    }
  }

  torch::nn::Sequential net_;
  std::vector<torch::Tensor> parameters_;
  torch::optim::SGD optimizer_;
  torch::Tensor gradient_;
};

// The identity of the worker, and the store of its job.
struct Place {
  ffdl::Store& store;
  ffdl::SessionOptions options = {};
};

struct Outcome {
  double accuracy = 0;
  uint64_t steps = 0;
  int size_max = 0;
  bool left = false;
};

// Calls `after_step` with the session after each step; if it returns true, the worker asks to
// leave.
Result<Outcome> train(Place place, const std::function<bool(ffdl::Session&)>& after_step) {
  FFDL_ASSIGN_OR_RETURN(const auto ledger,
                        ffdl::make_session_ledger({.samples = kPoints,
                                                   .partition_samples = kPoints,
                                                   .epochs = kEpochs,
                                                   .shuffle = ffdl::Shuffle::kSamples,
                                                   .order = ffdl::SampleOrder::kGlobal,
                                                   .batch_samples = kBatch}));
  Model model;
  place.options.participants = {ledger->participant()};
  FFDL_ASSIGN_OR_RETURN(const auto session, ffdl::Session::open(place.options, model, place.store));
  Outcome outcome;
  while (!ledger->is_done() && !outcome.left) {
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take());
    FFDL_ASSIGN_OR_RETURN(const auto numbers, ledger->sample_indices(ranges));
    if (!numbers.empty()) model.compute(numbers);
    FFDL_ASSIGN_OR_RETURN(const auto result, session->end_step());
    outcome.left = result == ffdl::StepResult::kLeft;
    outcome.size_max = std::max(outcome.size_max, session->world().size());
    if (!outcome.left && after_step(*session)) session->ask_to_leave();
  }
  outcome.steps = session->step();
  outcome.accuracy = model.accuracy();
  if (!outcome.left) FFDL_RETURN_IF_ERROR(session->finish());
  return outcome;
}

Status train_as_worker(const ffdl::JobEnvironment& told) {
  FFDL_ASSIGN_OR_RETURN(const auto store, ffdl::open_store(told.store_url, ffdl::system_runtime(),
                                                           {.secret = told.store_secret}));
  Place place{*store};
  place.options.self.id = told.worker_id;
  place.options.membership = ffdl::membership_options(told);
  FFDL_ASSIGN_OR_RETURN(const Outcome outcome, train(place, [](ffdl::Session&) { return false; }));
  std::printf("%s: %.0f %% after %llu steps, %d workers at most\n", told.worker_id.c_str(),
              100 * outcome.accuracy, static_cast<unsigned long long>(outcome.steps),
              outcome.size_max);
  return {};
}

// Trains with one worker, which another joins for a hundred steps.
Status train_by_itself() {
  FFDL_ASSIGN_OR_RETURN(const auto store, ffdl::open_store("mem://", ffdl::system_runtime()));
  const auto place_of = [&](const char* id) {
    Place place{*store};
    place.options.self.id = id;
    return place;
  };
  Status of_second;
  std::optional<std::thread> second;
  const auto join = [&] {
    uint64_t steps = 0;
    const auto outcome = train(place_of("second"), [&](ffdl::Session&) { return ++steps == 100; });
    of_second = outcome.status();
  };
  const auto outcome = train(place_of("first"), [&](ffdl::Session& session) {
    if (session.step() == 50) second.emplace(join);
    return false;
  });
  if (second) second->join();
  FFDL_RETURN_IF_ERROR(Status(outcome.status()));
  FFDL_RETURN_IF_ERROR(Status(of_second));
  std::printf("1 to %d to 1 workers: %s of the points are on their spiral\n", outcome->size_max,
              outcome->accuracy > 0.95 ? "more than 95 %" : "too few");
  return {};
}

Status run() {
  torch::set_num_threads(1);  // several workers share the machine
  FFDL_ASSIGN_OR_RETURN(const auto told, ffdl::job_environment());
  return told ? train_as_worker(*told) : train_by_itself();
}

}  // namespace

int main() {
  const Status status = run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
