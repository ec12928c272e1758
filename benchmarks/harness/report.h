#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

struct Machine {
  std::string cpu = {};
  unsigned cores = 0;
  std::string kernel = {};
  uint64_t memory_bytes = 0;
};

Machine this_machine();

// The value that a row has to reach.
struct Target {
  double bound = 0;
  bool smaller_is_better = false;
};

// One figure. An empty optional is null in the file: there is no limit, or the note states why
// nothing was measured.
struct Row {
  std::string name = {};
  std::optional<double> value = {};
  std::string unit = {};
  std::optional<double> limit = {};  // in the same unit
  std::string limit_is = {};
  std::optional<double> ratio = {};  // 1 at the limit, smaller is worse, also for times
  std::optional<double> lo = {};  // 95 % bounds: of the ratio, or of the value if there is no ratio
  std::optional<double> hi = {};
  bool disturbed = false;
  std::string note = {};
  std::optional<Target> target = {};
};

// Returns true if the row reaches its target within its bounds. Empty without a target, without a
// figure, or when the row was disturbed.
std::optional<bool> met(const Row& row);

// Returns true if the name ends with "/aa": a comparison of a contender with itself.
bool is_self_check(const Row& row);

struct Report {
  Machine machine = {};
  std::string commit = {};
  std::string date = {};
  std::string command = {};
  std::vector<Row> rows = {};
};

// Returns true if the bounds of a self check do not contain 1. Then no figure of the run is valid.
bool is_void(const Report& report);

nlohmann::ordered_json to_json(const Report& report);
std::string to_table(const Report& report);
// Returns the row in one line, for users who watch a run that takes minutes.
std::string to_line(const Row& row);

// Writes the whole file or nothing.
Status write_json(const Report& report, const std::string& path);

// Returns 0 if no target is missed, 2 if the report is void, 3 if a target is missed in an
// undisturbed row. (1: the run failed.)
int exit_code(const Report& report);

}  // namespace ffdl::bench
