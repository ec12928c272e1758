#pragma once

#include <memory>
#include <string>

#include "digits/dataset.h"
#include "elastic_digits/board.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace elastic {

// What every run of a job has in common. `elastic` says whether others may join, in the folder
// `store`; without it the same training runs alone, to compare with.
struct Job {
  const Options& options;
  const digits::Split& split;
  std::string log;    // where each step is written, as JSON lines
  std::string store;  // a URL
  std::string name;   // "elastic" or "alone", in each line
  ffdl::Time start;
};

// One worker, from its first step to the end of the last epoch, or until it is asked to leave.
ffdl::Status train(const Job& job, int number, Board& board);

}  // namespace elastic
