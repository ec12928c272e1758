#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ffdl/comm/communicator.h"
#include "ffdl/session.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// The messages between the members of all worlds of a simulation. A message cannot be taken back.
// One member may therefore get a result, and another that was cut off earlier may not.
class Exchange {
 public:
  struct Given {
    std::vector<std::byte> bytes;
    uint64_t state = 0;  // state of the member that gave it
    Duration at{};       // set by give()
  };
  // One operation of one world, or one message of a pair of its members.
  struct Place {
    uint64_t generation = 0;
    uint64_t number = 0;
    int from = -1;  // -1: all to all
    int to = -1;

    auto operator<=>(const Place&) const = default;
  };

  explicit Exchange(const SimRuntime& runtime) : runtime_(runtime) {}

  // Cuts the link from one member to the other until then. Its messages wait. The end of a
  // connection within this time is lost for good, with all messages sent before it within this
  // time. Nothing is sent again after the end.
  void cut(const std::string& from, const std::string& to, Duration until);
  void restore_links() { cuts_.clear(); }
  bool is_cut(const std::string& from, const std::string& to) const;
  // Records that the process of that member is killed now.
  void die(const std::string& id);

  void arrive(uint64_t generation, const Member& member, const SimNode& node);
  bool have_all_come(const World& world) const;
  // Returns the ranks whose link with this one is cut.
  std::vector<int> unreached(const World& world) const;
  // Returns true if the link of the two has been silent so long that it ends.
  bool is_silent(const World& world, int rank) const;
  void give(const Place& place, int rank, Given given);
  // Returns the message of that rank; null if there is none.
  const Given* find(const Place& place, int rank) const;
  // Returns the message of that rank if it has reached this member of the world; null otherwise.
  const Given* receive(const World& world, const Place& place, int rank) const;
  // Counts one more world in which this member could not connect to these ranks.
  void miss(const World& world, const std::vector<int>& ranks);
  // Records that this member is connected to all members of that world.
  void connected(const World& world);
  // Returns the number of worlds in which one of the two could not connect to the other, since it
  // last could.
  uint64_t worlds_missed(const std::string& one, const std::string& other) const;
  // Ends the part of that member in that world.
  void end(const World& world);
  // Returns true if this member sees that the member of that rank has ended or was killed.
  bool sees_end(const World& world, int rank) const;

  // Wakes this event by each change.
  void add(const std::shared_ptr<Event>& event) { waiting_.insert(event); }
  void remove(const std::shared_ptr<Event>& event) { waiting_.erase(event); }

 private:
  struct Cut {
    Duration since{};
    Duration until{};
  };
  using Link = std::pair<std::string, std::string>;  // from, to

  void wake();
  bool is_silent(const Link& link) const;
  bool is_dead(uint64_t generation, const Member& member) const;
  // Returns the begin of the cut on the link on which that member's end was lost.
  std::optional<Duration> lost_since(const World& world, int rank) const;

  using Life = std::pair<std::string, uint64_t>;
  std::map<uint64_t, std::map<Life, const SimNode*>> arrived_;
  std::map<Place, std::map<int, Given>> given_;
  std::set<std::pair<uint64_t, int>> ended_;
  std::map<Link, Cut> cuts_;
  std::map<Link, uint64_t> missed_;  // number of worlds, by the member that missed the other
  std::map<std::pair<uint64_t, Link>, Duration> lost_ends_;                 // by generation
  std::map<std::pair<const SimNode*, std::string>, Duration> lost_deaths_;  // and unaware member
  const SimRuntime& runtime_;
  std::set<std::shared_ptr<Event>> waiting_;
};

// Collectives of simulated processes, as docs/decisions/0007-collectives.md promises them.
// Implements the collectives that a session uses.
class SimCommunicator final : public Communicator {
 public:
  struct Hooks {
    std::function<uint64_t()> state;                        // state of this member, for the checker
    std::function<void(const std::vector<uint64_t>&)> sum;  // the states whose gradients are summed
    std::function<void()> act;                              // this member contributes
    std::function<void(std::vector<std::byte>&)> tamper;    // changes messages; for mutants
    double fail = 0;                   // the share of operations that fail here though all live
    bool is_first_bucket_all = false;  // later sums of a step do not fail; for a mutant
    bool waits_in_old_world = false;   // ignores that the world is over; for a mutant
  };

  static Result<std::unique_ptr<Communicator>> connect(const World& world, Time deadline,
                                                       const ConnectWatch& watch,
                                                       Exchange& exchange, SimRuntime& runtime,
                                                       SimNode& node, Hooks hooks);
  SimCommunicator(World world, Exchange& exchange, SimRuntime& runtime, SimNode& node, Hooks hooks)
      : world_(std::move(world)),
        exchange_(exchange),
        runtime_(runtime),
        node_(node),
        hooks_(std::move(hooks)) {}
  ~SimCommunicator() override { exchange_.end(world_); }

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
