#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/ledger/data_set.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/membership.h"
#include "membership/membership_records.h"

namespace ffdl::sim {

// The training of a worker: the numbers of its steps, under the label that
// docs/internals/protocol-step.md gives to a state.
struct State {
  uint64_t lineage = 0;  // 0: none
  uint64_t generation = 0;
  std::vector<uint64_t> steps{};
  // The label of the state from which this lineage began here. All 0: the initial state.
  StateLabel began_from{};
  StateLabel made{};                     // the label of the last step; all 0: the initial state
  std::optional<StateLabel> reported{};  // in the present world; none: it does not count there

  bool operator==(const State&) const = default;
  StateLabel label() const { return {lineage, generation, steps.size()}; }
  // Returns what a member reports of its state; none: it has none, or the initial one.
  std::optional<StateLabel> held() const {
    return lineage > 0 && made.lineage > 0 ? std::optional(made) : std::nullopt;
  }
};
using SharedState = std::shared_ptr<const State>;

// Checks the invariants of docs/internals/protocol-step.md over one whole simulation. It sees the
// store and all workers at once, as none of them can.
class Checker {
 public:
  using IsAlive = std::function<bool(const Member&)>;
  // Returns the content of a checkpoint on the disk; empty if it cannot be loaded.
  using ReadCheckpoint = std::function<std::optional<State>(const CheckpointPointer&)>;
  // `is_alive` returns true if that life of a member may still use its state. Without `read` a
  // checkpoint has the content that on_saved() got.
  explicit Checker(IsAlive is_alive, ReadCheckpoint read = {})
      : is_alive_(std::move(is_alive)), read_(std::move(read)) {}

  // Checks a write of the record that took effect. Its writer had read the revision `expected`.
  void on_world(Revision expected, const Entry& entry);
  // Records that a member sees this world.
  void on_seen(uint64_t generation, const std::vector<Member>& members);
  // Records the complete state that a member holds as it enters a world that begins a lineage.
  void on_held(uint64_t generation, const StateLabel& label, const std::vector<uint64_t>& steps);
  // Checks the state from which a member starts this world.
  void on_base(uint64_t generation, const State& base);
  // Checks the states that are about to go into one sum.
  void on_sum(const std::vector<SharedState>& states);
  // Checks the steps that all members of this world have applied.
  void on_stable(const World& world, const std::vector<uint64_t>& steps);
  // Checks a member that uses its state in the world that it sees: it contributes or applies.
  void on_act(const World& world);
  // Checks the end of the training: a member reports that it ends with these steps.
  void on_finished(uint64_t lineage, const std::vector<uint64_t>& steps);
  bool is_finished() const { return end_.has_value(); }
  // Records a checkpoint that is written, before it is published under this name.
  void on_saved(const std::string& manifest, const State& state) { saved_[manifest] = state; }
  const State& saved(const std::string& manifest) const { return saved_.at(manifest); }

  // Records that a state became another by that step. States have names; 0 is the beginning.
  void on_step(uint64_t before, uint64_t after, uint64_t step);
  const std::vector<uint64_t>& steps(uint64_t name) const;

  // Checks the samples that a ledger reports as committed for good.
  void on_committed(uint64_t lineage, const CommittedStep& step);
  // Returns the number of committed samples in all lineages.
  uint64_t samples() const { return samples_; }
  // Checks that the steps of all lineages together have each sample once in each epoch, as an audit
  // of their logs does.
  void check_epochs(const data::DataSet& data);

  void violation(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }
  const std::string& violation() const { return violation_; }

  const std::optional<membership::WorldRecord>& record() const { return record_; }
  uint64_t stable_steps() const { return stable_steps_; }
  uint64_t checkpoints() const { return saved_.size(); }
  // Returns the number of applied steps, counted for each member.
  uint64_t applied_steps() const { return applied_steps_; }
  // Returns the last world in which a step became stable.
  uint64_t working_generation() const { return working_generation_; }

 private:
  void check_restart(const membership::WorldRecord& next);
  void check_publication(const membership::WorldRecord& next);
  void read_checkpoint(const CheckpointPointer& checkpoint);
  void check_active(uint64_t generation);
  void check_stable_steps(uint64_t generation, const std::vector<uint64_t>& base);

  IsAlive is_alive_;
  ReadCheckpoint read_;
  std::optional<membership::WorldRecord> record_;
  Revision revision_ = 0;
  std::map<uint64_t, std::vector<Member>> members_;  // by generation
  struct Held {
    StateLabel label{};
    std::vector<uint64_t> steps{};
  };
  // Returns the state from which a lineage must begin in that world.
  Held beginning_of(uint64_t generation) const;

  std::map<uint64_t, State> bases_;
  std::map<uint64_t, Held> held_;                                 // the newest, by generation
  std::map<uint64_t, std::vector<Held>> all_held_;  // by generation
  std::set<uint64_t> active_;
  std::map<uint64_t, std::vector<uint64_t>> stable_;  // the longest, by lineage
  std::map<std::string, State> saved_;
  std::map<std::pair<uint64_t, uint64_t>, CommittedStep> committed_;  // by lineage and step
  uint64_t samples_ = 0;
  // Committed ranges from begin to end, by lineage and partition. Several members may have pieces
  // of one partition.
  std::map<std::pair<uint64_t, uint32_t>, std::map<uint64_t, uint64_t>> ranges_;
  std::map<uint64_t, std::vector<uint64_t>> histories_ = {{0, {}}};  // by name
  using Life = std::pair<std::string, uint64_t>;
  std::set<Life> void_;                       // lives whose state was given up
  std::map<Life, uint64_t> settled_;          // by the lineage of the last active world that had it
  std::map<uint64_t, uint64_t> last_active_;  // the generation, by lineage
  std::optional<std::vector<uint64_t>> end_;  // the steps of a job that is done
  uint64_t end_lineage_ = 0;
  uint64_t stable_steps_ = 0;
  uint64_t applied_steps_ = 0;
  uint64_t working_generation_ = 0;
  std::string violation_;
};

}  // namespace ffdl::sim
