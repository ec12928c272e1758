#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/process.h"
#include "sim/sim_communicator.h"

namespace ffdl::sim {

// Cuts links of sessions for a while. A cut takes the link between two members, in one direction or
// both. It may take all links of a member, with or without its access to the store. Measures the
// longest stall of the side that continues.
class LinkTrouble {
 public:
  using Processes = std::vector<std::unique_ptr<Process>>;

  // Returns the longest permitted stall while a state holder reaches the store and all others that
  // do. It is the lease, the time in which a step settles, and a second, for the times of the
  // simulated memberships.
  static Duration stall_max(const MembershipOptions& options);
  // Returns the longest permitted stall beside a member that reaches only the store. Its links must
  // be known to be silent, and three worlds with it must fail.
  static Duration stall_beside_isolated_max(const MembershipOptions& options);

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

 private:
  void cut_pair(const Process& one, const Process& other, Duration until);
  void cut_links(const Processes& processes, const Process& one, Duration until);
  void cut_member(const Processes& processes, Process& one, Duration until);
  void isolate(const Processes& processes, const Process& one, Duration until);
  bool is_isolated(const Process& process) const;
  bool must_go_on(const Processes& processes) const;

  SimRuntime& runtime_;
  Exchange& exchange_;
  Checker& checker_;
  Duration pair_until_{};    // no pair is cut after it
  Duration member_until_{};  // no member is cut off after it
  std::string isolated_;     // the member that reaches the store alone
  Duration isolated_until_{};
  Duration since_{};  // begin of the stall
  uint64_t applied_ = 0;
  Duration longest_{};
};

}  // namespace ffdl::sim
