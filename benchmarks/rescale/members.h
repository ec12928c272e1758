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

// The members of one job on this host, each a resident process, and their store, which another
// process serves from a folder. When that server dies, the members continue with a server of their
// own.
// Threads: one.
// Owns: the processes and the store.
class Members {
 public:
  // Starts all members in one active world. A member that is silent for `lease` is suspected.
  static Result<std::unique_ptr<Members>> start(int count, Duration lease);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  int count() const { return static_cast<int>(all_.size()); }
  const Resident& server() const { return store_->server(); }
  const Resident& member(int which) const { return *all_[static_cast<size_t>(which)]; }
  Result<int> leader();
  // Returns the newest generation that the first member knows.
  Result<uint64_t> generation();

  // Makes all members but `which` wait for a world without it.
  Status expect_end_of(int which);
  // Returns the time when the last of them had read the same new world, as it forms. The world is
  // active afterwards.
  Result<Time> end_seen(int which);
  // Kills the member if it still lives, and starts it again. The world then has all members.
  Status replace(int which);
  // Returns the time when a put of each member has returned.
  Result<Time> put_by_all();

 private:
  Members(std::unique_ptr<StoreFolder> store, Duration lease)
      : store_(std::move(store)), lease_(lease) {}
  Result<std::unique_ptr<Resident>> start_member(int which) const;
  // Sends `command` to all members but `except`.
  Status tell(const std::string& command, std::optional<int> except = {});
  // Returns the latest of the times at the start of all answers. The rests of the answers must be
  // equal.
  Result<Time> latest(std::optional<int> except = {});
  Status activate(std::optional<int> except = {});

  const std::unique_ptr<StoreFolder> store_;
  const Duration lease_;
  std::vector<std::unique_ptr<Resident>> all_;
};

}  // namespace ffdl::bench
