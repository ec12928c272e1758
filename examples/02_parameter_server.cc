// The smallest use of the parameter server: four threads learn one vector together.
//
// They share points that are scattered around a secret centre, and push the gradient of the squared
// distance to them. A ledger assigns the points, so that each is used once however fast the
// learners are. The server applies the mean of each round; the weights end near the centre.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"

namespace {

using namespace std::chrono_literals;
using ffdl::deadline_in;
using ffdl::Status;

constexpr int kLearners = 4;
constexpr uint64_t kPoints = 2'000;
constexpr uint64_t kPartitionPoints = 10;  // a learner without one waits for the last of them
constexpr std::array<float, 4> kCentre{1, -2, 3, 0.5};

// Returns a point: the centre, moved by one in some direction.
float coordinate(uint64_t point, size_t axis) {
  const float angle = static_cast<float>(point) * 2.4F + static_cast<float>(axis);
  return kCentre[axis] + std::sin(angle);
}

Status learn(const ffdl::ParameterServer& server) {
  FFDL_ASSIGN_OR_RETURN(const auto learner, ffdl::Learner::attach(server, deadline_in(10s)));
  FFDL_ASSIGN_OR_RETURN(const auto ledger,
                        ffdl::make_push_ledger(
                            {.samples = kPoints, .partition_samples = kPartitionPoints}, *learner));
  std::array<float, kCentre.size()> weights{};
  while (!ledger->is_done()) {
    FFDL_ASSIGN_OR_RETURN(const auto samples, ledger->take(1));
    if (samples.empty()) {
      FFDL_RETURN_IF_ERROR(ledger->wait(deadline_in(10s)));
      continue;
    }
    FFDL_ASSIGN_OR_RETURN(const auto points, ledger->sample_indices(samples));
    FFDL_ASSIGN_OR_RETURN(const auto gradient, learner->gradient_slot(deadline_in(10s)));
    FFDL_RETURN_IF_ERROR(learner->pull(weights).status());
    for (size_t axis = 0; axis < weights.size(); ++axis) {
      gradient[axis] = weights[axis] - coordinate(points[0], axis);
    }
    FFDL_RETURN_IF_ERROR(learner->push(ffdl::Gradient::slot(), samples).status());
  }
  return learner->detach(deadline_in(10s));
}

Status run() {
  ffdl::ParameterServerOptions options;
  options.parameters = kCentre.size();
  options.rule.learning_rate = 0.05F;
  options.learners_max = kLearners;
  options.partitions = kPoints / kPartitionPoints;
  // A gradient takes almost no time here. Without rounds the learners would finish before the
  // server had applied much, all with the initial weights.
  options.synchrony = ffdl::Synchrony::kBulk;
  FFDL_ASSIGN_OR_RETURN(const auto server, ffdl::ParameterServer::create(options));
  FFDL_RETURN_IF_ERROR(server->start());

  std::array<Status, kLearners> outcomes;
  {
    std::vector<std::jthread> threads;
    for (Status& outcome : outcomes) threads.emplace_back([&] { outcome = learn(*server); });
  }
  for (Status& outcome : outcomes) FFDL_RETURN_IF_ERROR(std::move(outcome));
  FFDL_RETURN_IF_ERROR(server->stop());

  uint64_t samples = 0;
  for (const auto& partition : server->stats().partitions) samples += partition.samples;
  float error = 0;
  for (size_t axis = 0; axis < kCentre.size(); ++axis) {
    const float weight = server->weights()[axis];
    fmt::print("weight {}: {:6.3f}, centre {:6.3f}\n", axis, weight, kCentre[axis]);
    error = std::max(error, std::abs(weight - kCentre[axis]));
  }
  fmt::print("{} samples, each used once; largest error {:.3f}\n", samples, error);
  if (samples == kPoints && error < 0.1F) return {};
  return {ffdl::StatusCode::kInternal, "the vector was not learned"};
}

}  // namespace

int main() {
  const Status status = run();
  if (status.ok()) return EXIT_SUCCESS;
  fmt::print(stderr, "{}\n", status.to_string());
  return EXIT_FAILURE;
}
