#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/comm/communicator.h"

namespace ffdl::testing {

using Ranks = std::vector<std::unique_ptr<Communicator>>;

inline std::vector<Member> members_named(int count, const std::string& prefix = "m") {
  std::vector<Member> members;
  for (int i = 0; i < count; ++i) members.push_back({prefix + std::to_string(i), 1});
  return members;
}

// Returns a world of `ranks` members, as rank 0 sees it.
inline World world_of(int ranks) {
  return {.generation = 9, .rank = 0, .members = members_named(ranks)};
}

// Runs `body(rank)` for each rank on a thread of its own, and joins them.
inline void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

inline void on_each(const Ranks& ranks, const std::function<void(Communicator&, int)>& body) {
  on_threads(static_cast<int>(ranks.size()),
             [&](int rank) { body(*ranks[static_cast<size_t>(rank)], rank); });
}

}  // namespace ffdl::testing
