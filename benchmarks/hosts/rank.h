#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/hosts/laboratory.h"
#include "benchmarks/hosts/streams.h"

namespace ffdl::bench {

// One rank of a laboratory: its plain connections, and a communicator of each measured back end.
// Threads: one.
class Rank {
 public:
  // All ranks call it, and meet in a store in `folder`.
  static Result<Rank> connect(int rank, const LaboratoryOptions& options,
                              const std::string& folder);
  // Takes part in a turn. Returns the seconds.
  Result<double> take(const std::string& line);

 private:
  Rank(int rank, int ranks, Streams streams)
      : rank_(rank), ranks_(ranks), streams_(std::move(streams)) {}
  Result<double> add(Communicator& communicator, int64_t times, uint64_t bytes);

  const int rank_;
  const int ranks_;
  Streams streams_;
  std::vector<std::unique_ptr<Communicator>> flat_;  // one for each of kBackends
  std::unique_ptr<Communicator> two_levels_;         // where a host has several ranks
  std::vector<float> values_;
};

}  // namespace ffdl::bench
