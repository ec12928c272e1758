#pragma once

#include <array>
#include <memory>
#include <optional>

#include "ffdl/device_learner.h"
#include "nlc/corpus.h"
#include "nlc/device/batch_plan.h"
#include "nlc/device/gpu.h"
#include "nlc/device/gpu_model.h"
#include "nlc/device/libraries.h"
#include "training/worker.h"

namespace nlc {

// A learner whose network lies in a GPU's memory. While the GPU computes a mini-batch and copy
// engines move the gradient of the one before and the weights of the one after, the processor looks
// for the features of the next but one.
// Threads: one at a time. Blocks: as DeviceLearner.
class GpuWorker final : public training::Worker {
 public:
  struct Parts {
    const Sentences* sentences = nullptr;  // to train on; must outlive it
    uint32_t labels = 0;
    std::unique_ptr<Gpu> gpu;
    Libraries libraries;
    // Null: computes with the weights that are there and gives its gradients to nobody, which is
    // what the others are measured against; only reading ahead.
    std::unique_ptr<ffdl::DeviceLearner> learner;
    uint32_t texts_max = 0;  // of a mini-batch
    // Takes the weights of a mini-batch before the one before has been pushed. Where learners wait
    // for each other this would be older weights than they agreed on.
    bool read_ahead = true;
  };
  static ffdl::Result<std::unique_ptr<GpuWorker>> create(Parts parts);
  // A transfer that is under way ends before the memory goes.
  ~GpuWorker() override { parts_.learner.reset(); }

  ffdl::Learner& learner() override { return parts_.learner->learner(); }
  ffdl::Result<std::optional<training::Step>> step(const training::MiniBatch& mini_batch,
                                                   ffdl::Time deadline) override;
  ffdl::Result<std::optional<training::Step>> finish(ffdl::Time deadline) override;

 private:
  // One mini-batch on its way.
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
  BatchPlan planned_;  // the next one: its turn may not be free yet
  std::array<Turn, 2> turns_;
  // Mini-batches so far: whose weights were asked for; that were computed, and their pushes begun;
  // whose pushes have ended. No two of these are further apart than there are turns.
  uint64_t taken_ = 0;
  uint64_t computed_ = 0;
  uint64_t pushed_ = 0;
};

}  // namespace nlc
