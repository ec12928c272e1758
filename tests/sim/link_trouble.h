#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/checker.h"
#include "sim/process.h"
#include "sim/sim_communicator.h"

namespace ffdl::sim {

// Cuts links of sessions for a while. A cut takes the link between two members, in one direction or
// both. It may take all links of a member, with or without its access to the store. Measures two
// stalls: the time in which no member applied a step, and the time in which a healthy one did not.
//
// A member is healthy if all of this holds:
// - The job must make steps: a world was active, there is no completion, no member is finishing.
// - Its process runs, its session is open, and its life is not over. So it has had the state. A
//   member that joins, or that begins a new life, is healthy once its open() returns.
// - It was not asked to leave, and no process is there to take its place.
// - It reaches the store, and is not the isolated member.
// - A state holder does so, too. Without one the others wait for it, or for the end of its fence.
// - No link is cut between two members that reach the store, except those of the isolated one.
// - It and each other member connected in one of the last three worlds that tried. Otherwise the
//   rules keep one of them apart for a time.
//
// A lease that ended does not matter: a member that reaches the store must come back by itself. A
// stall begins when the member is healthy, after its last step, or with the last cut. Each of these
// is seen at the next measurement, so a stall is longer than measured.
class LinkTrouble {
 public:
  using Processes = std::vector<std::unique_ptr<Process>>;

  // Returns the longest permitted stall of a healthy member, and of the job while a state holder
  // reaches the store and all others that do. It is the lease, the time in which a step settles,
  // and a second, for the times of the simulated memberships.
  static Duration stall_max(const MembershipOptions& options);
  // Returns the longest permitted stall after failed worlds, where the next one waits.
  static Duration stall_after_failures_max(const MembershipOptions& options);
  // Returns the longest permitted stall beside a member that reaches only the store. Its links must
  // be known to be silent, and three worlds with it must fail. If others failed before, and none
  // was active since, there are pauses between the three.
  static Duration stall_beside_isolated_max(const MembershipOptions& options, bool others_failed);

  LinkTrouble(SimRuntime& runtime, Exchange& exchange, Checker& checker)
      : runtime_(runtime), exchange_(exchange), checker_(checker) {}

  // Acts now and then; the caller calls it often.
  void act(const Processes& processes);
  // Restores all links.
  void restore() { exchange_.restore_links(); }
  // Returns the time until which a member is isolated.
  Duration isolated_until() const { return isolated_until_; }
  // Measures the stall: whether a step was applied since the last call, or none could be.
  void measure(const Processes& processes, const MembershipOptions& options);
  Duration longest_stall() const { return longest_; }
  // Measures the stall of each healthy member.
  void measure_members(const Processes& processes, const MembershipOptions& options);
  Duration longest_member_stall() const { return longest_of_member_; }

 private:
  void cut_pair(const Process& one, const Process& other, Duration until);
  void cut_links(const Processes& processes, const Process& one, Duration until);
  void cut_member(const Processes& processes, Process& one, Duration until);
  void isolate(const Processes& processes, const Process& one, Duration until);
  bool is_isolated(const Process& process) const;
  bool must_go_on(const Processes& processes) const;
  bool is_healthy(const Processes& processes, const Process& process) const;
  bool are_apart(const Process& one, const Process& other) const;
  // Returns true if a stall that began then was beside an isolated member.
  bool is_beside_isolated(Duration since) const { return since < isolated_until_; }
  std::string beside(Duration since) const;
  // The begin of a stall. Worlds that failed since the last active one make the next ones wait.
  struct Stall {
    Duration since{};
    uint64_t failed = 0;       // worlds that had failed then
    uint64_t most_failed = 0;  // at any measurement since
  };
  Stall begin_stall() const;
  // Returns the number of worlds since the last active one.
  uint64_t failed_worlds() const;
  Duration longest_permitted(const Stall& stall, const MembershipOptions& options) const;
  // Measures a stall. Returns its time if that is not permitted.
  std::optional<Duration> beyond_bound(Stall& stall, Duration& longest,
                                       const MembershipOptions& options) const;

  // The stall of one member.
  struct MemberStall {
    Stall stall{};
    uint64_t steps = 0;         // that it had applied
    uint64_t steps_of_all = 0;  // that all members together had applied
    bool is_healthy = false;    // at the last measurement
  };

  SimRuntime& runtime_;
  Exchange& exchange_;
  Checker& checker_;
  Duration pair_until_{};    // no pair is cut after it
  Duration member_until_{};  // no member is cut off after it
  std::string isolated_;     // the member that reaches the store alone
  Duration isolated_until_{};
  Stall stall_;              // of the job
  uint64_t applied_ = 0;
  Duration longest_{};
  std::map<std::pair<std::string, uint64_t>, MemberStall> stalls_;  // by id and incarnation
  Duration longest_of_member_{};
};

}  // namespace ffdl::sim
