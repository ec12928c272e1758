#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ffdl/launch/running_job.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// The records that supervisors and callers of scale_job() and migrate_worker() write to the store.
namespace ffdl::launch {

class Keys {
 public:
  explicit Keys(std::string_view job) : prefix_(fmt::format("ffdl/{}/launch/", job)) {}

  const std::string& prefix() const { return prefix_; }
  // The status of a supervisor's node, under its lease.
  std::string nodes() const { return prefix_ + "nodes/"; }
  std::string node(int number) const { return fmt::format("{}{}", nodes(), number); }
  // The workers that the job wants (wanted_workers.h): a decimal number, and a list of workers once
  // one has taken over from another. Written by the first supervisor, by scale_job() and
  // migrate_worker().
  std::string wanted() const { return prefix_ + "wanted"; }
  // The first outcome of the job: kDoneOutcome, or the reason why it was given up.
  std::string outcome() const { return prefix_ + "outcome"; }

 private:
  const std::string prefix_;
};

inline constexpr std::string_view kDoneOutcome = "done";

// A job as read_run() returns it, and the revision of its request at that time.
struct FoundRun {
  RunStatus run{};
  Revision wanted = 0;  // revision of the wanted record; 0: there is none
};
// Errors: kCorrupt, and those of Store.
Result<FoundRun> find_run(Store& store, std::string_view job);

std::string encode(const NodeStatus& node);
// Errors: kCorrupt.
Result<NodeStatus> parse_node(std::string_view text);

}  // namespace ffdl::launch
