#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/supervisor.h"

// What supervisors and those who ask for workers write to the store.
namespace ffdl::launch {

class Keys {
 public:
  explicit Keys(std::string_view job) : prefix_(fmt::format("ffdl/{}/launch/", job)) {}

  const std::string& prefix() const { return prefix_; }
  // What a supervisor says about its node, under its lease.
  std::string nodes() const { return prefix_ + "nodes/"; }
  std::string node(int number) const { return fmt::format("{}{}", nodes(), number); }
  // Which workers the job wants (wanted_workers.h): a decimal number, and who they are where one
  // took over from another. Written by the first supervisor, by scale_job() and migrate_worker().
  std::string wanted() const { return prefix_ + "wanted"; }
  // How the job ended where it did first: kDoneOutcome, or why it was given up.
  std::string outcome() const { return prefix_ + "outcome"; }

 private:
  const std::string prefix_;
};

inline constexpr std::string_view kDoneOutcome = "done";

// A job as read_run() sees it, and what its request was when it was looked at.
struct FoundRun {
  RunStatus run{};
  Revision wanted = 0;  // of that record; 0: there is none
};
// Errors: kCorrupt, and those of Store.
Result<FoundRun> find_run(Store& store, std::string_view job);

std::string encode(const NodeStatus& node);
// Errors: kCorrupt.
Result<NodeStatus> parse_node(std::string_view text);

}  // namespace ffdl::launch
