#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ffdl/data/sample_ledger.h"

namespace ffdl::data {

// One line of a commit log, without its line break. Pure.
//   {"samples":1000,"partition_samples":64,"epochs":3}
//   {"step":7,"lineage":1,"parts":[["w0",1,15,128,136],["w1",2,3,0,8]]}   id, incarnation, range
struct CommitLine {
  // Set in a header line, which begins the lines of a process:
  bool is_header = false;
  uint64_t samples = 0;
  uint64_t partition_samples = 0;
  uint64_t epochs = 0;
  CommittedStep step{};  // set in all other lines
};

std::string header_line(const LedgerOptions& options);
std::string step_line(const CommittedStep& step);
// Returns nothing if the line is neither a header nor a step.
std::optional<CommitLine> parse_commit_line(std::string_view line);

}  // namespace ffdl::data
