#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "ffdl/runtime.h"
#include "ffdl/store.h"
#include "ffdl/supervisor.h"
#include "launch/records.h"
#include "launch/wanted_workers.h"

namespace ffdl::launch {

// One node's part of a job's records: says what its supervisor says, tells it what others want, and
// reports ends of workers, each in a task of its own, so that a store that does not answer holds
// up nobody.
// Threads: all methods but open and close from any.
class NodeBoard {
 public:
  struct View {
    WantedWorkers wanted{};
    std::set<int> handing_over{};
    int lost_elsewhere = 0;
    std::optional<std::string> outcome{};
  };

  // Sets `bell` when view() or take_told() may answer something else.
  NodeBoard(Store& store, Runtime& runtime, Event& bell, std::string job);
  ~NodeBoard();

  // Waits for the record of a predecessor that was killed to end with its lease. Where no other
  // node's supervisor lives the job begins with `wanted` workers. Errors: kConflict, of Store.
  Status open(const NodeStatus& node, int wanted);
  void publish(const NodeStatus& node);
  // Its process has ended: all its lives until now are dead.
  void report_end(std::string id);
  // Those of which the job has been told since the last call.
  std::vector<std::string> take_told();
  View view() const;
  // Reports what is left to report, and how the job has ended if it has; then this node's record is
  // gone.
  Status close(std::string_view outcome);

 private:
  void keep(const StopToken& stop);
  Status turn();
  Status keep_lease();
  Status tell_end(const std::string& id);
  void watch(const StopToken& stop);
  Status look();
  Status take_place(const NodeStatus& node);
  void stop_tasks();

  Store& store_;
  Runtime& runtime_;
  Event& bell_;
  const std::string job_;
  const Keys keys_;
  const std::unique_ptr<Event> changed_;  // there is something to be told
  // Of open(), then of the task that keeps, then of close().
  int number_ = 0;
  LeaseId lease_ = kNoLease;
  Time next_renewal_{};
  std::string told_;

  mutable base::Mutex mutex_;
  std::string record_ FFDL_GUARDED_BY(mutex_);
  std::vector<std::string> ended_ FFDL_GUARDED_BY(mutex_);
  std::vector<std::string> told_ends_ FFDL_GUARDED_BY(mutex_);
  View view_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> keeper_;
  std::unique_ptr<Task> watcher_;
};

}  // namespace ffdl::launch
