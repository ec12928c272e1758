#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

// Every key of a job's membership. What stands under prefix() changes when somebody comes,
// goes, or the world does; those who wait look at nothing else.
namespace ffdl::membership {

class Keys {
 public:
  explicit Keys(std::string_view job) : root_(fmt::format("ffdl/{}/", job)) {}

  std::string prefix() const { return root_ + "who/"; }
  // The record of the world: compare-and-put by the leader, and by members that activate it,
  // publish a checkpoint or come back.
  std::string world() const { return prefix() + "world"; }
  // Who leads, under its lease.
  std::string leader() const { return prefix() + "leader"; }
  // A candidate, under its lease. Written by itself.
  std::string candidates() const { return prefix() + "members/"; }
  std::string candidate(std::string_view id) const { return candidates().append(id); }
  // The last incarnation of an id whose death is proved. Written by its launcher or by itself.
  std::string deaths() const { return prefix() + "dead/"; }
  std::string death(std::string_view id) const { return deaths().append(id); }
  // The last incarnation of an id that has left, as it may. Written by itself.
  std::string departures() const { return prefix() + "left/"; }
  std::string departure(std::string_view id) const { return departures().append(id); }

  // The last incarnation of an id. Counts for ever.
  std::string incarnation(std::string_view id) const {
    return root_ + "incarnation/" + std::string(id);
  }
  // What a member has begun, under its lease. Nobody waits for it.
  std::string all_progress() const { return root_ + "progress/"; }
  std::string progress(std::string_view id) const { return all_progress().append(id); }

 private:
  const std::string root_;
};

}  // namespace ffdl::membership
