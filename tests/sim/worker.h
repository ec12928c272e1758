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

// The durations of a worker's actions.
struct Pace {
  Duration settle_max{};
  Duration heal_max{};
  Duration compute_max{};
  double publish = 0;
  double hang = 0;  // per step, for some seconds
  double fail = 0;  // per gather, though all live
};

// The source of the gradients of sessions.
enum class Training {
  kNumbers,       // random numbers, while samples are taken on demand
  kOnDemand,      // samples, taken on demand
  kGlobal,        // samples of one order
  kMicroBatches,  // samples of one order, one micro-batch at a time
  kBuckets,       // samples on demand, and averaged while later gradients are computed
};

// The checkpoints of sessions; unused without a disk.
struct Checkpointing {
  testing::MemoryFiles* disk = nullptr;
  uint64_t every_steps = 0;
  int keep_last = 1;
  DiskFaults faults{};
};

// The state that all workers of a simulation share.
struct Shared {
  SimRuntime& runtime;
  Checker& checker;
  Bus& bus;
  Exchange& exchange;  // for sessions
  Checker::IsAlive is_alive;
  MembershipOptions options;
  Pace pace;
  Mutant mutant = Mutant::kNone;
  Training training = Training::kNumbers;
  uint64_t epochs = 0;  // for sessions, which finish after them; 0: they train for ever
  Checkpointing checkpointing{};
  Duration operation_timeout = std::chrono::seconds(4);  // for sessions
};

// One process of a training job: the real Membership, and above it the steps of a session as in
// docs/internals/protocol-step.md. States are lists of step numbers.
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
  Status join(const MembershipOptions& options);
  Result<State> find_base(const World& world);
  Result<std::optional<State>> take_base(const World& world, bool is_beginning);
  Status begin_anew(const World& world);
  Status run_steps(const World& world);
  Status make_active(const World& world);
  Status publish();
  void save(const State& stable);
  Result<std::vector<SharedState>> gather(const World& world, uint64_t sequence);
  Status life_status();
  Status is_outdated(const World& world) const;
  Time in(Duration time) { return node_.now() + time; }

  Shared& shared_;
  SimRuntime& runtime_;
  std::unique_ptr<Membership> membership_;
  State state_;
  std::optional<CheckpointPointer> unpublished_;
  uint64_t checkpoints_ = 0;
  std::unique_ptr<Task> task_;  // last: it uses all members above
};

}  // namespace ffdl::sim
