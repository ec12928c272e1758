#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ffdl::bench {

// What all ranks of a contender do between two sleeps.
struct Sums {
  int count = 0;  // of sums on the clock
  uint64_t bytes = 0;
  bool list = false;  // as a list of the tensors of a model
};

// The ranks of one contender: this process and its forks. Between turns each is parked in a
// blocking read; a line "COUNT BYTES [list]" on standard input wakes them all.
// Threads: make it before there is any other.
// Owns: the forks of rank 0. They end when its input ends.
class Group {
 public:
  explicit Group(int ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  // The next turn; none when it is over.
  std::optional<Sums> next();
  // What rank 0 tells the harness.
  void answer(const std::string& line) const;

 private:
  int rank_ = 0;
  std::vector<int> others_;  // of rank 0: pipes to the other ranks
  std::vector<int> forks_;
  int own_ = -1;  // of the others: the pipe from rank 0
};

}  // namespace ffdl::bench
