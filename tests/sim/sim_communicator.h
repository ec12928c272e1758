#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ffdl/communicator.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// What the members of all worlds of a simulation say to each other. What was given cannot be taken
// back, so that one member may get a result and another, who was cut off before, not.
class Exchange {
 public:
  struct Given {
    std::vector<std::byte> bytes;
    uint64_t state = 0;  // of the one who gave it
  };
  // One operation of one world, or one message of a pair of its members.
  struct Place {
    uint64_t generation = 0;
    uint64_t number = 0;
    int from = -1;  // -1: all to all
    int to = -1;

    auto operator<=>(const Place&) const = default;
  };

  void arrive(uint64_t generation, const Member& member, const SimNode& node);
  bool all_arrived(const World& world) const;
  // Its process was killed.
  bool is_dead(uint64_t generation, const Member& member) const;
  void give(const Place& place, int rank, Given given);
  // By rank; null where nothing was given.
  const Given* find(const Place& place, int rank) const;
  // That member takes part in that world no more.
  void end(uint64_t generation, int rank);
  bool has_ended(uint64_t generation, int rank) const;

  // Whoever waits is woken by each change.
  void add(const std::shared_ptr<Event>& event) { waiting_.insert(event); }
  void remove(const std::shared_ptr<Event>& event) { waiting_.erase(event); }

 private:
  void wake();

  using Life = std::pair<std::string, uint64_t>;
  std::map<uint64_t, std::map<Life, const SimNode*>> arrived_;
  std::map<Place, std::map<int, Given>> given_;
  std::set<std::pair<uint64_t, int>> ended_;
  std::set<std::shared_ptr<Event>> waiting_;
};

// Collectives of simulated processes, as docs/decisions/0007-collectives.md promises them: those
// that a session uses.
class SimCommunicator final : public Communicator {
 public:
  struct Hooks {
    std::function<uint64_t()> state;                        // of this member, for the checker
    std::function<void(const std::vector<uint64_t>&)> sum;  // those whose gradients are summed
    std::function<void()> act;                              // this member contributes
    std::function<void(std::vector<std::byte>&)> tamper;    // with what it gives; for mutants
    double fail = 0;                   // how often an operation ends badly here though all live
    bool is_first_bucket_all = false;  // later sums of a step do not fail; for a mutant
  };

  static Result<std::unique_ptr<Communicator>> connect(const World& world, Time deadline,
                                                       const std::function<Status()>& look,
                                                       Exchange& exchange, SimRuntime& runtime,
                                                       SimNode& node, Hooks hooks);
  SimCommunicator(World world, Exchange& exchange, SimRuntime& runtime, SimNode& node, Hooks hooks)
      : world_(std::move(world)),
        exchange_(exchange),
        runtime_(runtime),
        node_(node),
        hooks_(std::move(hooks)) {}
  ~SimCommunicator() override { exchange_.end(world_.generation, world_.rank); }

  const World& world() const override { return world_; }
  Backend backend() const override { return Backend::kLocal; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;

 private:
  Status attempt(const Operation& operation, Time deadline);
  Status wait_for(const Exchange::Place& place, const std::vector<int>& ranks, Time deadline);
  Status all_to_all(const Operation& operation, Time deadline);
  std::span<const std::byte> block_of(std::span<const std::byte> bytes) const;
  Status one_to_one(const Operation& operation, Time deadline);

  const World world_;
  Exchange& exchange_;
  SimRuntime& runtime_;
  SimNode& node_;
  const Hooks hooks_;
  uint64_t operations_ = 0;
  uint64_t sums_ = 0;  // since the last gather
  std::map<std::pair<int, int>, uint64_t> messages_;
  Status failed_;
};

}  // namespace ffdl::sim
