#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/ledger/data_set.h"
#include "elastic/session/rescale.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "sim/process.h"
#include "sim/worker.h"

namespace ffdl::sim {

// The model of a simulated session: numbers that name the history of their steps, one in the model
// and one in a participant. The checker keeps the histories.
class Chain final : public Trainable, public StepParticipant {
 public:
  explicit Chain(Shared& shared);

  // The functions of the model.
  std::vector<Buffer> state() override { return {{&model_, 1, DType::kInt64}}; }
  std::vector<Buffer> gradients() override;
  void apply() override;
  void on_world(const World& world) override;
  Status begin_anew() override;

  // The functions of the participant.

  // Returns the size of two numbers, so that no message of a step has the size of a report. A
  // mutant depends on that.
  size_t record_bytes() const override { return 2 * sizeof(uint64_t); }
  void write_record(std::span<std::byte> record) override;
  void applied(uint64_t step, const StepRecords& records) override;
  void world_changed(const World& /*world*/) override {}
  void stable(uint64_t step) override;
  std::vector<std::byte> save() const override;
  Status restore(std::span<const std::byte> bytes) override;

  // Computes random numbers, of no samples.
  void compute();
  // Computes one of the gradients: the mean over these samples.
  void compute(std::span<const SampleRange> ranges, size_t which = 0);
  size_t gradient_count() const { return gradients_.size(); }
  // Checks that the gradients were computed from the samples that this step commits. Ignores a step
  // that was not made here.
  void check_samples(const CommittedStep& committed);
  // Returns the name of both numbers, and so of all steps.
  uint64_t name() const { return name_of(model_, records_); }
  static uint64_t name_of(int64_t model, uint64_t records);
  const World& world() const { return world_; }
  uint64_t reported() const { return reported_; }
  // Returns true if the state is complete, as of the last world and its steps.
  bool is_whole() const { return is_whole_; }
  // Records a report of this state in a world that begins a lineage. Of two in one world, the
  // second one may be of a state that was given up, as is one that is older than the checkpoint.
  void note_report(uint64_t generation, bool is_old) {
    if (std::exchange(reported_, generation) == generation || is_old) is_whole_ = false;
  }
  // Returns the step with which the present lineage began, if it did so here.
  uint64_t first_step() const { return first_step_; }
  uint64_t stable_step() const { return stable_step_; }  // the last step reported as stable
  // Returns the generation in which the last step was applied here.
  uint64_t last_apply() const { return last_apply_; }

 private:
  uint64_t sum_over(uint64_t samples);

  Shared& shared_;
  int64_t model_ = 0;
  uint64_t records_ = 0;
  uint64_t before_ = 0;  // the name before this step's apply()
  bool has_applied_ = false;
  std::vector<double> gradients_;
  std::map<uint64_t, uint64_t> sums_;  // the sum over each step's samples, by step
  uint64_t last_apply_ = 0;
  uint64_t stable_step_ = 0;
  uint64_t first_step_ = 0;
  uint64_t reported_ = 0;  // the last generation of which note_report() was told
  bool is_whole_ = false;
  World world_;
};

// Returns the state in a checkpoint of sessions, as they would load it; empty if they could not.
std::optional<State> read_checkpoint(testing::MemoryFiles& disk, const Checker& checker,
                                     const CheckpointPointer& pointer);

// One process of a training job: the real Session, over a communicator of the simulation.
class SessionWorker final : public Process {
 public:
  SessionWorker(Shared& shared, SimNode& node, std::unique_ptr<FaultyStore> store, std::string id,
                std::string takes_over_from);

  // Returns a data set with small epochs, so that a schedule has several ends of them.
  static data::DataSet data_set() { return {.samples = 100, .partition_samples = 13}; }

  const Member* self() const override { return session_ ? &session_->self() : nullptr; }
  bool may_use_state() const override {
    return !node_.is_killed() && store_->has_renewed_within(shared_.options.fence_after) &&
           session_ && session_->life_status().ok();
  }
  uint64_t applied_steps() const override { return session_ ? session_->stats().steps : 0; }
  bool is_finishing() const override { return is_finishing_; }

 private:
  void run();
  Status live();
  Status finish(const Chain& chain);
  Result<StepResult> make_step(Chain& chain, SampleLedger& ledger);
  Status compute_buckets(Chain& chain, SampleLedger& ledger, std::span<const SampleRange> taken);
  Result<std::unique_ptr<SampleLedger>> make_ledger(Chain& chain);
  SessionOptions options(Chain& chain, SampleLedger& ledger);
  SimCommunicator::Hooks hooks(const World& world, Chain& chain);
  void check_held(const World& world, Chain& chain, elastic::Report& report);

  Shared& shared_;
  SimRuntime& runtime_;
  std::unique_ptr<SimFiles> files_;  // null without a disk
  std::unique_ptr<Session> session_;
  bool is_finishing_ = false;
  std::unique_ptr<Task> task_;  // last: it uses all members above
};

}  // namespace ffdl::sim
