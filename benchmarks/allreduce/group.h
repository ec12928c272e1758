#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ffdl::bench {

// The work of all ranks of a contender between two sleeps.
struct Sums {
  int count = 0;  // number of timed sums
  uint64_t bytes = 0;
  bool list = false;  // true: as a list of the tensors of a model
};

// The ranks of one contender: this process and its forks. Between turns each rank sleeps in a
// blocking read; a line "COUNT BYTES [list]" on standard input wakes them all.
// Threads: create it before any other thread.
// Owns: the forks of rank 0. They end when its input ends.
class Group {
 public:
  explicit Group(int ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  // Returns the next turn, or none at the end.
  std::optional<Sums> next();
  // Sends a line from rank 0 to the harness.
  void answer(const std::string& line) const;

 private:
  int rank_ = 0;
  std::vector<int> others_;  // at rank 0: pipes to the other ranks
  std::vector<int> forks_;
  int own_ = -1;  // at other ranks: the pipe from rank 0
};

}  // namespace ffdl::bench
