#pragma once

#include <memory>
#include <string>

#include "digits/dataset.h"
#include "elastic_digits/board.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace elastic {

// The parameters that every run of a job shares. `elastic` is true if others may join, in the
// folder `store`. Otherwise the same training runs alone, for comparison.
struct Job {
  const Options& options;
  const digits::Split& split;
  std::string log;    // the file of each step, as JSON lines
  std::string store;  // a URL
  std::string name;   // "elastic" or "alone", in each line
  ffdl::Time start;
};

// Runs one worker from its first step to the end of the last epoch, or until it is asked to leave.
ffdl::Status train(const Job& job, int number, Board& board);

}  // namespace elastic
