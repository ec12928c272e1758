#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// How many workers a job should have, by what it says of itself: its speed, its queues, the noise
// of its gradients. docs/policies.md
// A policy is a function of values; what keeps it from swinging is outside of it (steady_decide),
// and so is what makes a running job follow (policy_follower.h).
namespace ffdl {

// A point in time as calendars have it, UTC; only policies and their logs need it.
using WallTime = std::chrono::sys_time<Duration>;

// What the members of a job said of one metric: the sum over those who said anything.
struct MetricValue {
  double sum = 0;
  int members = 0;

  double mean() const { return members > 0 ? sum / members : 0; }
  bool operator==(const MetricValue&) const = default;
};

// How fast the job was at a size, and how long ago that was measured last.
struct SizeSpeed {
  int workers = 0;
  double samples_per_s = 0;
  Duration age{};

  bool operator==(const SizeSpeed&) const = default;
};

// A job as a policy sees it: means over some steps in one world.
struct Observation {
  int workers = 0;
  uint64_t step = 0;                  // the last of them
  double step_s = 0;                  // of one step
  double samples_per_s = 0;           // of all workers; 0: not known
  double communication_share = 0;     // of a step in which a member does not compute: 0 to 1
  std::vector<SizeSpeed> speeds{};    // what was measured so far, by workers, the present size too
  std::optional<int> idle_workers{};  // that nobody uses; below 0: too many are used
  std::map<std::string, MetricValue> metrics{};  // the application's own

  bool operator==(const Observation&) const = default;
};

struct SizeDecision {
  int workers = 0;
  std::string reason{};

  bool operator==(const SizeDecision&) const = default;
};

// Says what size is right for what is seen. Pure: it keeps nothing from one call to the next and
// depends on nothing but its arguments, so that a recorded job can be replayed
// (policy_replay.h). It need not keep to bounds, and may change its mind at once.
// Threads: from any, several at a time.
class FFDL_API ElasticPolicy {
 public:
  virtual ~ElasticPolicy() = default;
  virtual SizeDecision decide(const Observation& observation, WallTime now) const = 0;
};

// As many workers as are worth it. What a further worker adds to the speed, over what each one
// before it gives, is its worth: 1 where the speed grows in proportion. Sizes that were never
// measured are tried, one worker further at a time.
struct EfficiencyPolicyOptions {
  double grow_above = 0.7;    // larger where further workers have this worth, or it is not known
  double shrink_below = 0.5;  // smaller where the last ones have less
  Duration trusted_for = std::chrono::minutes(10);  // what was measured earlier is not known
};

// As many workers as a queue needs: its length, summed over the members, over what one worker sees
// to.
struct QueuePolicyOptions {
  std::string metric = "queue_depth";
  double per_worker = 0;  // above 0
};

// As many workers as the noise of the gradients makes useful: the noise scale (gradient_noise.h,
// the mean over the members) over the samples of one worker in a step. A larger batch would be
// mostly wasted (McCandlish et al., arXiv 1812.06162, section 2.2).
struct NoisePolicyOptions {
  std::string metric = "noise_scale";
  double samples_per_worker = 0;  // above 0
};

// So many workers from a time of the day on.
struct ScheduledSize {
  Duration from{};  // since midnight, below 24 hours
  int workers = 0;
};

struct SchedulePolicyOptions {
  std::vector<ScheduledSize> sizes{};  // any order; before the first of a day the last one holds
  Duration utc_offset{};               // of the clock that they are told by: 2 h in UTC+2
};

// All workers that nobody else uses, but for some; gives back what others need.
struct IdlePolicyOptions {
  int keep_idle = 0;
};

// The built-in policies. Where what they look at is not known they keep the present size.
// Errors: kInvalidArgument (the message names the option).
FFDL_API Result<std::unique_ptr<ElasticPolicy>> make_policy(const EfficiencyPolicyOptions& options);
FFDL_API Result<std::unique_ptr<ElasticPolicy>> make_policy(const QueuePolicyOptions& options);
FFDL_API Result<std::unique_ptr<ElasticPolicy>> make_policy(const NoisePolicyOptions& options);
FFDL_API Result<std::unique_ptr<ElasticPolicy>> make_policy(const SchedulePolicyOptions& options);
FFDL_API Result<std::unique_ptr<ElasticPolicy>> make_policy(const IdlePolicyOptions& options);

// What every policy is held to.
struct SteadyOptions {
  int min_workers = 1;
  int max_workers = INT32_MAX;
  Duration cooldown = std::chrono::seconds(60);  // after a change the size stays for so long
  int confirmations = 2;  // so many times in a row the policy must want more, or fewer
  double tolerance = 0;   // a change by less than this part of the present size is none
  int step_max = 0;       // so many workers at once, at most; 0: no bound
};

// What is known from one decision to the next.
struct SteadyState {
  std::optional<WallTime> changed_at{};  // none: never
  int direction = 0;                     // what was wanted last: 1 more, -1 fewer, 0 neither
  int times = 0;                         // in a row

  bool operator==(const SteadyState&) const = default;
};

struct SteadyDecision {
  int workers = 0;       // that the job is to have now
  int proposed = 0;      // by the policy
  std::string reason{};  // the policy's, and why it is not followed where it is not
  SteadyState state{};   // for the next decision, if this one is carried out

  bool operator==(const SteadyDecision&) const = default;
};

// Errors: kInvalidArgument (the message names the options).
FFDL_API Status check_steady(const SteadyOptions& options);

// Asks the policy, and holds it to the bounds, the cooldown and the hysteresis. Pure.
FFDL_API SteadyDecision steady_decide(const ElasticPolicy& policy, const SteadyOptions& options,
                                      const Observation& observation, WallTime now,
                                      const SteadyState& state);

struct LoadedPolicy {
  std::unique_ptr<ElasticPolicy> policy;
  SteadyOptions steady{};
};

// A built-in policy from a file in YAML or JSON; docs/policies.md lists the keys.
//   policy: queue
//   per_worker: 100
//   max_workers: 8        # and min_workers, cooldown_s, confirmations, tolerance, step_max
// Blocks: reads it. Errors: kNotFound (no such file), kInvalidArgument; the message names the file,
// the line and the column.
FFDL_API Result<LoadedPolicy> load_policy(const std::filesystem::path& file);

}  // namespace ffdl
