#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

// Names every key of a job's membership. The keys under prefix() change when a member joins or
// leaves, and when the world changes. Waiting members watch only these.
namespace ffdl::membership {

class Keys {
 public:
  explicit Keys(std::string_view job) : root_(fmt::format("ffdl/{}/", job)) {}

  std::string prefix() const { return root_ + "who/"; }
  // The record of the world. The leader writes it by compare-and-put, and so do members that
  // activate it, publish a checkpoint or return.
  std::string world() const { return prefix() + "world"; }
  // The leader, under its lease.
  std::string leader() const { return prefix() + "leader"; }
  // A candidate, under its lease. Written by the candidate.
  std::string candidates() const { return prefix() + "members/"; }
  std::string candidate(std::string_view id) const { return candidates().append(id); }
  // The last incarnation of an id whose death is proved. Written by its launcher or by the member.
  std::string deaths() const { return prefix() + "dead/"; }
  std::string death(std::string_view id) const { return deaths().append(id); }
  // The last incarnation of an id that has left voluntarily. Written by the member.
  std::string departures() const { return prefix() + "left/"; }
  std::string departure(std::string_view id) const { return departures().append(id); }

  // The last incarnation of an id. Valid for ever.
  std::string incarnation(std::string_view id) const {
    return root_ + "incarnation/" + std::string(id);
  }
  // The step that a member has begun. It outlives the member, and nothing waits for it.
  std::string all_progress() const { return root_ + "progress/"; }
  std::string progress(std::string_view id) const { return all_progress().append(id); }

  // The last version of a parameter server that has ended with its training.
  std::string ended_servers() const { return root_ + "servers/"; }
  std::string ended_server(std::string_view name) const { return ended_servers().append(name); }

 private:
  const std::string root_;
};

}  // namespace ffdl::membership
