#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ffdl/partition_ledger.h"

namespace ffdl::data {

// A line of a commit log, without its end. Pure.
//   {"samples":1000,"partition_samples":64,"epochs":3}
//   {"step":7,"lineage":1,"parts":[["w0",1,15,128,136],["w1",2,3,0,8]]}   id, incarnation, range
struct CommitLine {
  // Of a line that begins what a process writes:
  bool is_header = false;
  uint64_t samples = 0;
  uint64_t partition_samples = 0;
  uint64_t epochs = 0;
  CommittedStep step{};  // of all others
};

std::string header_line(const PartitionLedgerOptions& options);
std::string step_line(const CommittedStep& step);
// Nothing: it is neither.
std::optional<CommitLine> parse_commit_line(std::string_view line);

}  // namespace ffdl::data
