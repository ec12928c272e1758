#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "examples/gpu_against_host.h"
#include "nlc/device/gpu_worker.h"
#include "ps/learner/learner_impl.h"
#include "ps/segment/layout.h"
#include "support/host_gpu.h"
#include "support/learners.h"
#include "support/programs.h"
#include "support/segment_name.h"
#include "support/times.h"

// Tests learners with a real server. The device's memory is the host's and its streams are threads.
namespace nlc {
namespace {

using ffdl::testing::soon;

constexpr int kIntents = 3;
constexpr uint64_t kMiniBatch = 4;

Sentences some_sentences(uint64_t count) {
  Sentences sentences;
  layers::Random random(5);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t label = i % kIntents;
    sentences.texts.push_back("w" + std::to_string(random.below(30)) + " verb" +
                              std::to_string(label) + " noun" + std::to_string(label));
    sentences.labels.push_back(static_cast<int>(label));
  }
  return sentences;
}

// The mini-batches of one of several learners: every n-th sample for n learners.
class MiniBatches {
 public:
  MiniBatches(uint64_t samples, uint32_t partition, uint32_t partitions)
      : samples_(samples), partition_(partition), partitions_(partitions) {}

  training::MiniBatch at(uint64_t number) {
    taken_.clear();
    const uint64_t begin = number * kMiniBatch;
    for (uint64_t i = begin; i < begin + kMiniBatch; ++i) {
      taken_.push_back((i * partitions_ + partition_) % samples_);
    }
    return {
        taken_, {.partition = partition_, .begin = begin, .end = begin + kMiniBatch}, 100 + number};
  }

 private:
  uint64_t samples_;
  uint32_t partition_;
  uint32_t partitions_;
  std::vector<uint64_t> taken_;
};

float mean_loss(std::span<const training::Step> steps) {
  float sum = 0;
  for (const training::Step& step : steps) sum += step.loss;
  return sum / static_cast<float>(steps.size());
}

class GpuWorkers : public ::testing::Test {
 protected:
  void start(int learners, ffdl::Synchrony synchrony) {
    ffdl::ParameterServerOptions options;
    options.name = name_;
    options.parameters = model_.parameters();
    options.rule.learning_rate = 0.5F;
    options.synchrony = synchrony;
    options.learners_max = learners;
    options.rows_max = 4'000;
    server_ = ffdl::testing::create_server(options);
    model_.initialize(server_->weights(), 7);
    first_.assign(server_->weights().begin(), server_->weights().end());
    ASSERT_OK(server_->start());
  }

  GpuWorker::Parts parts(bool read_ahead) const {
    auto libraries = Libraries::load({ffdl::kFakeCudnn}, {ffdl::kFakeCudnn});
    EXPECT_OK(libraries);
    return {.sentences = &sentences_,
            .labels = kIntents,
            .gpu = std::make_unique<HostGpu>(),
            .libraries = std::move(libraries).value(),
            .learner = nullptr,
            .texts_max = kMiniBatch,
            .read_ahead = read_ahead};
  }

  std::unique_ptr<GpuWorker> attach(bool read_ahead) const {
    GpuWorker::Parts made = parts(read_ahead);
    auto segment = ffdl::ps::open_segment(name_.text());
    EXPECT_OK(segment);
    auto learner = ffdl::Learner::Impl::attach(
        std::make_shared<const ffdl::shm::Segment>(std::move(segment).value()), soon(),
        {.device = -1}, std::make_unique<ffdl::testing::HostDevice>());
    EXPECT_OK(learner);
    made.learner = std::move(learner).value();
    auto worker = GpuWorker::create(std::move(made));
    EXPECT_OK(worker);
    return std::move(worker).value();
  }

  const ffdl::testing::SegmentName name_;
  const Sentences sentences_ = some_sentences(60);
  Model model_{kIntents};
  std::vector<float> first_;  // weights
  std::unique_ptr<ffdl::ParameterServer> server_;
};

// A single learner that does not read ahead runs the plain loop of the processor. Its loss and
// weights are the same, step by step.
TEST_F(GpuWorkers, OneByOneTakesTheStepsOfTheProcessor) {
  start(1, ffdl::Synchrony::kBulk);
  const auto worker = attach(false);
  MiniBatches batches(sentences_.size(), 0, 1);
  std::vector<float>& weights = first_;
  Model::Parameters parameters;
  Model::Parameters gradient;
  for (uint64_t i = 0; i < 20; ++i) {
    const training::MiniBatch batch = batches.at(i);
    ASSERT_OK_AND_ASSIGN(const auto step, worker->step(batch, soon()));
    ASSERT_TRUE(step.has_value());
    EXPECT_EQ(step->end, batch.range.end);
    Gathered gathered;
    gather(sentences_, batch, gathered);
    model_.take(weights, gathered.features, parameters);
    const float loss = model_.gradient(gathered.features, gathered.labels, parameters, gradient);
    ASSERT_NEAR(step->loss, loss, 1e-5) << "mini-batch " << i;
    for (std::size_t f = 0; f < gathered.features.rows.size(); ++f) {
      for (std::size_t c = 0; c < kWidth; ++c) {
        weights[gathered.features.rows[f] * kWidth + c] -= 0.5F * gradient.rows[f * kWidth + c];
      }
    }
    for (std::size_t c = 0; c < gradient.head.size(); ++c) {
      weights[model_.head_begin() + c] -= 0.5F * gradient.head[c];
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto rest, worker->finish(soon()));
  EXPECT_FALSE(rest.has_value());
  ASSERT_OK(worker->learner().detach(soon()));
  expect_near(server_->weights(), weights, 1e-5F);
}

// Several learners transfer data beside compute. Every sample is committed once, and the loss
// falls.
TEST_F(GpuWorkers, ReadingAheadCommitsEverySampleOnceInOrder) {
  constexpr uint32_t kLearners = 2;
  constexpr uint64_t kMiniBatches = 40;
  start(kLearners, ffdl::Synchrony::kAsync);
  std::vector<std::vector<training::Step>> steps(kLearners);
  std::vector<std::thread> threads;
  for (uint32_t l = 0; l < kLearners; ++l) {
    threads.emplace_back([&, l] {
      const auto worker = attach(true);
      MiniBatches batches(sentences_.size(), l, kLearners);
      for (uint64_t i = 0; i < kMiniBatches; ++i) {
        ASSERT_OK_AND_ASSIGN(const auto step, worker->step(batches.at(i), soon()));
        EXPECT_EQ(step.has_value(), i >= 2);
        if (step) steps[l].push_back(*step);
      }
      while (true) {
        ASSERT_OK_AND_ASSIGN(const auto step, worker->finish(soon()));
        if (!step) break;
        steps[l].push_back(*step);
      }
      ASSERT_OK(worker->learner().detach(soon()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  float at_first = 0;  // the larger of both: the first learner may have ended already
  for (const auto& of_one : steps) {
    ASSERT_EQ(of_one.size(), kMiniBatches);
    at_first = std::max(at_first, mean_loss(std::span(of_one).first(10)));
  }
  for (uint32_t l = 0; l < kLearners; ++l) {
    for (uint64_t i = 0; i < kMiniBatches; ++i) {
      EXPECT_EQ(steps[l][i].end, (i + 1) * kMiniBatch);
      EXPECT_GT(steps[l][i].bytes, 2 * model_.head_size() * sizeof(float));
    }
    EXPECT_LT(mean_loss(std::span(steps[l]).last(10)), at_first / 2);
    const auto partition = server_->stats().partitions[l];
    EXPECT_EQ(partition.samples, kMiniBatches * kMiniBatch);
    EXPECT_EQ(partition.missing + partition.repeated, 0U);
  }
}

TEST_F(GpuWorkers, AloneItTakesEveryMiniBatch) {
  auto worker = GpuWorker::create(parts(true));
  ASSERT_OK(worker);
  MiniBatches batches(sentences_.size(), 0, 1);
  uint64_t done = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto step, (*worker)->step(batches.at(i), soon()));
    if (step) ++done;
  }
  while (true) {
    ASSERT_OK_AND_ASSIGN(const auto step, (*worker)->finish(soon()));
    if (!step) break;
    ++done;
  }
  EXPECT_EQ(done, 5U);
}

// The learner ends without a finish(). Work under way ends before its memory is freed.
TEST_F(GpuWorkers, EndWithMiniBatchesUnderWay) {
  start(1, ffdl::Synchrony::kAsync);
  {
    const auto worker = attach(true);
    MiniBatches batches(sentences_.size(), 0, 1);
    for (uint64_t i = 0; i < 3; ++i) ASSERT_OK(worker->step(batches.at(i), soon()));
  }
  ASSERT_OK(server_->stop());
  const auto partition = server_->stats().partitions[0];
  EXPECT_GE(partition.samples, kMiniBatch);
  EXPECT_LE(partition.samples, 2 * kMiniBatch);
}

}  // namespace
}  // namespace nlc
