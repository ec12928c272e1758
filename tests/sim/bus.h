#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// The exchange of states between the members of one generation: a gather per sequence number, as
// communicators have. A given state cannot be taken back. One member may therefore have all states,
// and another that gave up may not.
class Bus {
 public:
  // Gives `state` for that place and wakes the members that wait there.
  void give(uint64_t generation, uint64_t sequence, const Member& from, SharedState state);
  // Returns the states in the order of `members`; empty while one is missing.
  std::vector<SharedState> take(uint64_t generation, uint64_t sequence,
                                const std::vector<Member>& members) const;

  // Wakes this event by each give().
  void add(const std::shared_ptr<Event>& event) { waiting_.insert(event); }
  void remove(const std::shared_ptr<Event>& event) { waiting_.erase(event); }

 private:
  using Place = std::pair<uint64_t, uint64_t>;
  std::map<Place, std::map<std::string, std::pair<uint64_t, SharedState>>> given_;
  std::set<std::shared_ptr<Event>> waiting_;
};

inline void Bus::give(uint64_t generation, uint64_t sequence, const Member& from,
                      SharedState state) {
  given_[{generation, sequence}][from.id] = {from.incarnation, std::move(state)};
  for (const auto& event : waiting_) event->set();
}

inline std::vector<SharedState> Bus::take(uint64_t generation, uint64_t sequence,
                                          const std::vector<Member>& members) const {
  const auto place = given_.find({generation, sequence});
  if (place == given_.end()) return {};
  std::vector<SharedState> states;
  for (const Member& member : members) {
    const auto found = place->second.find(member.id);
    if (found == place->second.end() || found->second.first != member.incarnation) return {};
    states.push_back(found->second.second);
  }
  return states;
}

}  // namespace ffdl::sim
