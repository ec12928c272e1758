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

// What a row is held to.
struct Target {
  double bound = 0;
  bool smaller_is_better = false;
};

// One figure. An empty optional is null in the file: there is no limit, or nothing was measured and
// the note says why.
struct Row {
  std::string name = {};
  std::optional<double> value = {};
  std::string unit = {};
  std::optional<double> limit = {};  // in the same unit
  std::string limit_is = {};
  std::optional<double> ratio = {};  // 1 at the limit, smaller is worse, also for times
  std::optional<double> lo =
      {};  // 95 % bounds: of the ratio, or of the value where there is no ratio
  std::optional<double> hi = {};
  bool disturbed = false;
  std::string note = {};
  std::optional<Target> target = {};
};

// Whether the row reaches its target, as far as its bounds allow that it does. Empty without a
// target, without a figure, or when the row was disturbed.
std::optional<bool> met(const Row& row);

// Name ends with "/aa": a thing against itself.
bool is_self_check(const Row& row);

struct Report {
  Machine machine = {};
  std::string commit = {};
  std::string date = {};
  std::string command = {};
  std::vector<Row> rows = {};
};

// A self check whose bounds do not hold 1: no figure of the run can be believed.
bool is_void(const Report& report);

nlohmann::ordered_json to_json(const Report& report);
std::string to_table(const Report& report);

// Writes the file whole or not at all.
Status write_json(const Report& report, const std::string& path);

// 0: no target missed. 2: void. 3: a target missed in an undisturbed row. (1: the run failed.)
int exit_code(const Report& report);

}  // namespace ffdl::bench
