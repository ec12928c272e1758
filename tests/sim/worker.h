#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ffdl/membership.h"
#include "sim/bus.h"
#include "sim/checker.h"
#include "sim/faulty_store.h"
#include "sim/mutants.h"
#include "sim/process.h"
#include "sim/sim_communicator.h"
#include "sim/sim_files.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// How long what takes.
struct Pace {
  Duration settle_max{};
  Duration heal_max{};
  Duration compute_max{};
  double publish = 0;
  double hang = 0;  // per step, for some seconds
  double fail = 0;  // per gather, though all live
};

// What sessions compute their gradients from.
enum class Training {
  kNumbers,       // nothing: random numbers, while samples are taken on demand
  kOnDemand,      // samples, taken on demand
  kGlobal,        // samples of one order
  kMicroBatches,  // the same, one micro-batch at a time
  kBuckets,       // samples on demand, and averaged while later gradients are computed
};

// Of sessions; none where there is no disk.
struct Checkpointing {
  testing::MemoryFiles* disk = nullptr;
  uint64_t every_steps = 0;
  int keep_last = 1;
  DiskFaults faults{};
};

// What all workers of a simulation share.
struct Shared {
  SimRuntime& runtime;
  Checker& checker;
  Bus& bus;
  Exchange& exchange;  // of sessions
  Checker::IsAlive is_alive;
  MembershipOptions options;
  Pace pace;
  Mutant mutant = Mutant::kNone;
  Training training = Training::kNumbers;
  Checkpointing checkpointing{};
};

// One process of a training job: the real Membership, and above it the steps of a session as
// docs/protocol-step.md has them, on states that are lists of step numbers.
class Worker final : public Process {
 public:
  Worker(Shared& shared, SimNode& node, std::unique_ptr<FaultyStore> store, std::string id,
         std::string takes_over_from);

  const Member* self() const override { return membership_ ? &membership_->self() : nullptr; }
  bool may_use_state() const override;

 private:
  void run();
  void live();
  Status train(const World& world);
  Result<State> find_base(const World& world);
  Status begin_anew(const World& world);
  Status run_steps(const World& world);
  Status make_active(const World& world);
  Status publish();
  void save(const State& stable);
  Result<std::vector<SharedState>> gather(const World& world, uint64_t sequence);
  Status standing();
  Status is_outdated(const World& world) const;
  Time in(Duration time) { return node_.now() + time; }

  Shared& shared_;
  SimRuntime& runtime_;
  std::unique_ptr<Membership> membership_;
  State state_;
  std::optional<CheckpointPointer> unpublished_;
  uint64_t checkpoints_ = 0;
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::sim
