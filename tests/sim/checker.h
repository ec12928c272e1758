#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/data_set.h"
#include "ffdl/membership.h"
#include "ffdl/partition_ledger.h"
#include "membership/records.h"

namespace ffdl::sim {

// What a worker trains: the numbers of the steps that made it, under the label that
// docs/protocol-step.md gives to a state.
struct State {
  uint64_t lineage = 0;
  uint64_t generation = 0;
  std::vector<uint64_t> steps{};

  bool operator==(const State&) const = default;
};
using SharedState = std::shared_ptr<const State>;

// The invariants of docs/protocol-step.md, over all that happens in one simulation. It sees the
// store and all workers at once, as none of them can.
class Checker {
 public:
  using IsAlive = std::function<bool(const Member&)>;
  // What a checkpoint on the disk holds; nothing: it cannot be loaded.
  using ReadCheckpoint = std::function<std::optional<State>(const CheckpointPointer&)>;
  // `is_alive` says whether that life of a member still may use its state. Without `read` a
  // checkpoint is what on_saved() said.
  explicit Checker(IsAlive is_alive, ReadCheckpoint read = {})
      : is_alive_(std::move(is_alive)), read_(std::move(read)) {}

  // A write of the record took effect, of a writer who had read the revision `expected`.
  void on_world(Revision expected, const Entry& entry);
  // A member sees this world.
  void on_seen(uint64_t generation, const std::vector<Member>& members);
  // A member starts this world from that state.
  void on_base(uint64_t generation, const State& base);
  // These states are about to go into one sum.
  void on_sum(const std::vector<SharedState>& states);
  // All members of this world have applied these steps.
  void on_stable(const World& world, const std::vector<uint64_t>& steps);
  // The member that sees this world uses its state in it: it contributes, or applies.
  void on_act(const World& world);
  // A checkpoint is written, to be published under this name.
  void on_saved(const std::string& manifest, const State& state) { saved_[manifest] = state; }
  const State& saved(const std::string& manifest) const { return saved_.at(manifest); }

  // A state became another by that step; states have names, 0 is the beginning.
  void on_step(uint64_t before, uint64_t after, uint64_t step);
  const std::vector<uint64_t>& steps(uint64_t name) const;

  // A ledger says that these samples are committed for good.
  void on_committed(uint64_t lineage, const CommittedStep& step);
  // That were committed, in all lineages.
  uint64_t samples() const { return samples_; }
  // Whether each lineage has each sample once in each of its epochs. All began from nothing, and
  // not from a checkpoint.
  void check_epochs(const data::DataSet& data);

  void violation(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }
  const std::string& violation() const { return violation_; }

  const std::optional<membership::WorldRecord>& record() const { return record_; }
  uint64_t stable_steps() const { return stable_steps_; }
  uint64_t checkpoints() const { return saved_.size(); }
  // The last world in which a step became stable.
  uint64_t working_generation() const { return working_generation_; }

 private:
  void check_restart(const membership::WorldRecord& next);
  void check_publication(const membership::WorldRecord& next);
  void read_checkpoint(const CheckpointPointer& checkpoint);
  void check_active(uint64_t generation);

  IsAlive is_alive_;
  ReadCheckpoint read_;
  std::optional<membership::WorldRecord> record_;
  Revision revision_ = 0;
  std::map<uint64_t, std::vector<Member>> members_;  // by generation
  std::map<uint64_t, State> bases_;
  std::set<uint64_t> active_;
  std::map<uint64_t, std::vector<uint64_t>> stable_;  // by lineage; the longest
  std::map<std::string, State> saved_;
  std::map<std::pair<uint64_t, uint64_t>, CommittedStep> committed_;  // by lineage and step
  uint64_t samples_ = 0;
  // By lineage and partition, from begin to end: pieces of one may be given to several members.
  std::map<std::pair<uint64_t, uint32_t>, std::map<uint64_t, uint64_t>> ranges_;
  std::map<uint64_t, std::vector<uint64_t>> histories_ = {{0, {}}};  // by name
  using Life = std::pair<std::string, uint64_t>;
  std::set<Life> void_;                       // whose state was given up
  std::map<Life, uint64_t> settled_;          // by the lineage of the last active world that had it
  std::map<uint64_t, uint64_t> last_active_;  // generation, by lineage
  uint64_t stable_steps_ = 0;
  uint64_t working_generation_ = 0;
  std::string violation_;
};

}  // namespace ffdl::sim
