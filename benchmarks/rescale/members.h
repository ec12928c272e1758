#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/store_folder.h"
#include "ffdl/types.h"

namespace ffdl::bench {

// The members of one job on this host, each a resident process, over a store that a process beside
// them serves from a folder; they go on with a server of their own when that one dies.
// Threads: one.
// Owns: the processes and the store.
class Members {
 public:
  // All of them, in one active world.
  static Result<std::unique_ptr<Members>> start(int count);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  int count() const { return static_cast<int>(all_.size()); }
  const Resident& server() const { return store_->server(); }
  const Resident& member(int which) const { return *all_[static_cast<size_t>(which)]; }
  Result<int> leader();
  // Of the newest world that the first member knows.
  Result<uint64_t> generation();

  // Tells all but `which` to wait for a world without it.
  Status expect_end_of(int which);
  // When the last of them had read the same new world, as it forms; the world is active afterwards.
  Result<Time> end_seen(int which);
  // Kills it if it still lives, and starts it again: the world has all members then.
  Status replace(int which);
  // When a put of each member has returned.
  Result<Time> put_by_all();

 private:
  explicit Members(std::unique_ptr<StoreFolder> store) : store_(std::move(store)) {}
  Result<std::unique_ptr<Resident>> start_member(int which) const;
  // All are told `command`; `except` is left alone.
  Status tell(const std::string& command, std::optional<int> except = {});
  // The times at the beginning of all answers: the latest. Their rests must be equal.
  Result<Time> latest(std::optional<int> except = {});
  Status activate(std::optional<int> except = {});

  const std::unique_ptr<StoreFolder> store_;
  std::vector<std::unique_ptr<Resident>> all_;
};

}  // namespace ffdl::bench
