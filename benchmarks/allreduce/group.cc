#include "benchmarks/allreduce/group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <sstream>

#include "benchmarks/harness/resident.h"

namespace ffdl::bench {

Group::Group(int ranks) {
  for (int rank = 1; rank < ranks && rank_ == 0; ++rank) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const int end : others_) close(end);
      others_.clear();
      forks_.clear();
      close(ends[1]);
      own_ = ends[0];
      rank_ = rank;
    } else {
      close(ends[0]);
      others_.push_back(ends[1]);
      forks_.push_back(child);
    }
  }
}

Group::~Group() {
  for (const int end : others_) close(end);
  for (const int child : forks_) waitpid(child, nullptr, 0);
}

std::optional<Sums> Group::next() {
  Sums turn;
  if (rank_ != 0) {
    const bool whole = read(own_, &turn, sizeof turn) == sizeof turn;
    return whole ? std::optional(turn) : std::nullopt;
  }
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  std::istringstream words(line);
  std::string list;
  words >> turn.count >> turn.bytes >> list;
  turn.list = list == "list";
  for (const int end : others_) {
    if (write(end, &turn, sizeof turn) != sizeof turn) return std::nullopt;
  }
  return turn;
}

void Group::answer(const std::string& line) const {
  if (rank_ == 0) bench::answer(line);
}

}  // namespace ffdl::bench
