#pragma once

#include <array>
#include <memory>
#include <optional>

#include "ffdl/ps/learner.h"
#include "nlc/corpus.h"
#include "nlc/device/batch_plan.h"
#include "nlc/device/gpu.h"
#include "nlc/device/gpu_model.h"
#include "nlc/device/libraries.h"
#include "training/worker.h"

namespace nlc {

// A learner with its network in a GPU's memory. Three things happen at once. The GPU computes a
// mini-batch. Copy engines move the gradient of the previous one and the weights of the next one.
// The processor gathers the features of the one after that.
// Threads: one at a time. Blocks: as Learner.
class GpuWorker final : public training::Worker {
 public:
  struct Parts {
    const Sentences* sentences = nullptr;  // training samples; must outlive it
    uint32_t labels = 0;
    std::unique_ptr<Gpu> gpu;
    Libraries libraries;
    // A learner with a device. Null: the worker keeps its weights and pushes no gradient, as the
    // reference for other workers. This is for reading ahead only.
    std::unique_ptr<ffdl::Learner> learner;
    uint32_t texts_max = 0;  // of a mini-batch
    // Takes the weights of a mini-batch before the previous one has been pushed. With learners that
    // wait for each other these weights would be older than agreed.
    bool read_ahead = true;
  };
  static ffdl::Result<std::unique_ptr<GpuWorker>> create(Parts parts);
  // Ends a transfer that is under way before the memory is freed.
  ~GpuWorker() override { parts_.learner.reset(); }

  ffdl::Learner& learner() override { return *parts_.learner; }
  ffdl::Result<std::optional<training::Step>> step(const training::MiniBatch& mini_batch,
                                                   ffdl::Time deadline) override;
  ffdl::Result<std::optional<training::Step>> finish(ffdl::Time deadline) override;

 private:
  // One mini-batch in progress.
  struct Turn {
    std::unique_ptr<GpuModel> model;
    BatchPlan plan;
    ffdl::SampleRange range;
  };

  explicit GpuWorker(Parts parts);
  Turn& turn(uint64_t number) { return turns_[number % turns_.size()]; }
  ffdl::Status start_pull(const training::MiniBatch& mini_batch);
  ffdl::Status push_next(ffdl::Time deadline);
  ffdl::Status start_push(const Turn& next, ffdl::Time deadline);
  ffdl::Result<std::optional<training::Step>> finish_push(ffdl::Time deadline);

  Parts parts_;
  BatchPlanner planner_{kTableRows};
  Gathered gathered_;
  BatchPlan planned_;  // the next one: its turn may be in use
  std::array<Turn, 2> turns_;
  // Counts of mini-batches: weights requested; computed, with the push started; push ended. No two
  // of them differ by more than the number of turns.
  uint64_t taken_ = 0;
  uint64_t computed_ = 0;
  uint64_t pushed_ = 0;
};

}  // namespace nlc
