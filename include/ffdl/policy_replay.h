#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/elastic_policy.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

// A policy on a job that was recorded: what sizes it would have asked for, and whether it swings.
// `ffdl policy replay`; docs/policies.md
namespace ffdl {

struct TracePoint {
  WallTime at{};
  Observation observation{};

  bool operator==(const TracePoint&) const = default;
};

// A trace from a log of decisions (PolicyFollowerOptions::log_file), or of lines of JSON that are
// observations with `t_s`. Lines of JSON that are neither are left out, and so is a last line that
// was cut.
// Blocks: reads it. Errors: kNotFound (no such file), kInvalidArgument (the message names the line;
// no observation at all; times that go back).
FFDL_API Result<std::vector<TracePoint>> load_policy_trace(const std::filesystem::path& file);

struct ReplayOptions {
  std::optional<int> first_workers{};  // none: those of the trace's first point
  // A change that takes another back within this time is a reversal.
  Duration reversal_window = std::chrono::minutes(10);
};

struct ReplayPoint {
  WallTime at{};
  int workers = 0;   // from here on
  int proposed = 0;  // by the policy
  std::string reason{};

  bool operator==(const ReplayPoint&) const = default;
};

struct PolicyReplay {
  std::vector<ReplayPoint> points{};  // of each point of the trace
  uint64_t changes = 0;
  uint64_t reversals = 0;
  uint64_t unmeasured =
      0;               // points at a size that the trace has never had: no speed is known there
  double seconds = 0;  // from the first to the last
  double worker_seconds = 0;

  // The part of the changes that were reversals, 0 to 1: how much the policy swings.
  double oscillation() const {
    return changes > 0 ? static_cast<double>(reversals) / static_cast<double>(changes) : 0;
  }
  double mean_workers() const { return seconds > 0 ? worker_seconds / seconds : 0; }
};

// At each point the policy sees what was recorded, but its own size in place of the recorded one,
// and with it the mean of the speeds that the trace has of that size, and of all others as if just
// measured; workers that it has more are idle no more. Metrics are those recorded: what another
// size would have made of them is not known. Pure. Errors: kInvalidArgument (the options, an empty
// trace).
FFDL_API Result<PolicyReplay> replay_policy(std::span<const TracePoint> trace,
                                            const ElasticPolicy& policy,
                                            const SteadyOptions& steady,
                                            const ReplayOptions& options = {});

}  // namespace ffdl
