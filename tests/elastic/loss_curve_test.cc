// Checks that a model whose members join and leave has the loss of one that trains alone.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr size_t kFeatures = 7;
constexpr uint64_t kSamples = 250;  // the last batch of an epoch is short
constexpr uint64_t kBatch = 24;     // batch size over all members
constexpr uint64_t kMicroBatch = 3;

struct Sample {
  std::array<float, kFeatures> x{};
  float y = 0;
};

std::vector<Sample> make_samples() {
  std::vector<Sample> samples(kSamples);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < kFeatures; ++j) {
      samples[i].x[j] = static_cast<float>(std::sin(1.7 * static_cast<double>(i * kFeatures + j)));
      samples[i].y += samples[i].x[j] * static_cast<float>(j + 1) / kFeatures;
    }
    samples[i].y += static_cast<float>(std::cos(static_cast<double>(i))) / 10;
  }
  return samples;
}

// A least-squares model with momentum.
class Line final : public Trainable {
 public:
  std::vector<Buffer> state() override {
    return {{weights_.data(), kFeatures}, {momentum_.data(), kFeatures}};
  }
  std::vector<Buffer> gradients() override { return {{gradient_.data(), kFeatures}}; }
  void apply() override {
    for (size_t j = 0; j < kFeatures; ++j) {
      momentum_[j] = 0.9F * momentum_[j] + gradient_[j];
      weights_[j] -= 0.02F * momentum_[j];
    }
  }
  void compute(std::span<const uint64_t> indices) {
    gradient_.fill(0);
    for (const uint64_t index : indices) {
      const Sample& sample = samples_[index];
      for (size_t j = 0; j < kFeatures; ++j) {
        gradient_[j] += error_of(sample) * sample.x[j] / static_cast<float>(indices.size());
      }
    }
  }
  double loss() const {
    double sum = 0;
    for (const Sample& sample : samples_) sum += std::pow(double{error_of(sample)}, 2);
    return sum / kSamples;
  }

 private:
  float error_of(const Sample& sample) const {
    float error = -sample.y;
    for (size_t j = 0; j < kFeatures; ++j) error += weights_[j] * sample.x[j];
    return error;
  }

  const std::vector<Sample> samples_ = make_samples();
  std::array<float, kFeatures> weights_{};
  std::array<float, kFeatures> momentum_{};
  std::array<float, kFeatures> gradient_{};
};

enum class End { kLeaves, kDies };
enum class Sum { kOfMembers, kOfMicroBatches };

// Computes the gradient of the due step and returns its number of samples.
Result<uint64_t> compute_step(Sum sum, SampleLedger& ledger, Line& model, Session& session) {
  FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take());
  FFDL_ASSIGN_OR_RETURN(const auto indices, ledger.sample_indices(ranges));
  if (sum == Sum::kOfMembers) {
    model.compute(indices);
    return ledger.taken();
  }
  for (size_t begin = 0; begin < indices.size(); begin += kMicroBatch) {
    const size_t count = std::min<size_t>(kMicroBatch, indices.size() - begin);
    model.compute(std::span(indices).subspan(begin, count));
    FFDL_RETURN_IF_ERROR(session.add_micro_batch(count));
  }
  return ledger.taken();
}

// Trains until `goes_on` returns false after a step, and then leaves or dies. Returns the loss
// after each step that this member made, from the first one on.
template <class GoesOn>
Result<std::vector<double>> train(const std::string& id, Store& store, Sum sum, End end,
                                  GoesOn&& goes_on) {
  LedgerOptions data;
  data.samples = kSamples;
  data.partition_samples = 30;
  data.epochs = 0;
  data.seed = 3;
  data.shuffle = Shuffle::kSamples;
  data.order = SampleOrder::kGlobal;
  data.batch_samples = kBatch;
  data.micro_batch_samples = kMicroBatch;
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(data));
  Line model;
  SessionOptions options;
  options.self.id = id;
  options.membership.lease = 3s;  // keeps it alive on a busy machine
  options.participants = {ledger->participant()};
  options.verify_state = true;
  if (sum == Sum::kOfMicroBatches) {
    options.micro_batch_shares = [&ledger] { return ledger->shares(); };
    options.micro_batch_samples = kMicroBatch;
  }
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, store));
  std::vector<double> losses;
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const uint64_t samples, compute_step(sum, *ledger, model, *session));
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(samples));
    if (result == StepResult::kRetryStep) continue;
    if (session->step() > losses.size()) losses.resize(session->step(), model.loss());
    if (result == StepResult::kLeft) return losses;
    if (goes_on(*session)) continue;
    if (end == End::kDies) return losses;
    if (session->world().members.size() == 1) break;
    session->ask_to_leave();
  }
  FFDL_RETURN_IF_ERROR(session->finish());
  return losses;
}

class LossCurve : public ::testing::TestWithParam<std::tuple<Sum, End>> {};

TEST_P(LossCurve, OfAFixedBatchIsThatOfOneMember) {
  const auto [sum, end] = GetParam();
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  // Trains 20 steps alone, then with another member that ends after 30 steps, then 20 alone.
  std::thread other;
  uint64_t last_step = 0;
  bool were_two = false;
  const auto scaled = train("b", *store, sum, End::kLeaves, [&](Session& session) {
    const size_t members = session.world().members.size();
    if (session.step() >= 20 && !other.joinable()) {
      other = std::thread([&store, sum, end] {
        uint64_t first = 0;
        EXPECT_OK(train("a", *store, sum, end, [&first](const Session& mine) {
          if (first == 0) first = mine.step();
          return mine.step() < first + 30;
        }));
      });
    }
    were_two = were_two || members == 2;
    if (were_two && members == 1 && last_step == 0) last_step = session.step() + 20;
    return last_step == 0 || session.step() < last_step;
  });
  if (other.joinable()) other.join();
  ASSERT_OK(scaled);
  ASSERT_OK_AND_ASSIGN(const auto lonely_store, open_store("mem://", system_runtime()));
  ASSERT_OK_AND_ASSIGN(const std::vector<double> alone,
                       train("b", *lonely_store, sum, End::kLeaves,
                             [&](const Session& session) { return session.step() < last_step; }));
  ASSERT_EQ(scaled->size(), alone.size());
  for (size_t step = 0; step < alone.size(); ++step) {
    const double bound = sum == Sum::kOfMicroBatches ? 0 : 1e-6;  // the same bits
    ASSERT_NEAR((*scaled)[step] / alone[step], 1, bound) << "step " << step + 1;
  }
  EXPECT_LT(alone.back(), alone.front() / 10);
}

INSTANTIATE_TEST_SUITE_P(
    Ends, LossCurve,
    ::testing::Combine(::testing::Values(Sum::kOfMembers, Sum::kOfMicroBatches),
                       ::testing::Values(End::kLeaves, End::kDies)),
    [](const auto& which) {
      return std::string(std::get<0>(which.param) == Sum::kOfMembers ? "" : "MicroBatches") +
             (std::get<1>(which.param) == End::kDies ? "OtherDies" : "OtherLeaves");
    });

}  // namespace
}  // namespace ffdl
