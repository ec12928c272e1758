#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "ffdl/launch/running_job.h"
#include "ffdl/runtime.h"
#include "ffdl/store.h"
#include "launch/launch_records.h"
#include "launch/wanted_workers.h"

namespace ffdl::launch {

// Manages one node's part of a job's records: publishes its supervisor's status, reads the requests
// of others, and reports ends of workers. Each runs in a task of its own, so that a store that does
// not answer blocks no caller.
// Threads: all methods but open, open_free and close from any.
class NodeBoard {
 public:
  struct View {
    WantedWorkers wanted{};
    std::set<int> handing_over{};
    int lost_elsewhere = 0;
    std::optional<std::string> outcome{};
  };

  // Sets `bell` when view() or take_reported() may return something else.
  NodeBoard(Store& store, Runtime& runtime, Event& bell, std::string job);
  ~NodeBoard();

  // Publishes the node's status. Waits for the record of a killed predecessor to end with its
  // lease. If no other node has a live supervisor, the job starts with `wanted` workers. Errors:
  // kConflict, those of Store.
  Status open(const NodeStatus& node, int wanted);
  // Opens the node with the first free number of `first` to `first + count - 1`, and returns that
  // number. `record_of` returns the status of the node with a number that is tried. The number is
  // taken in one change of the store, so no two nodes have the same. It is free again when this
  // node closes, or has died and its lease has ended. If none is free, waits as long for one as
  // open(). Errors: kConflict (each has a live supervisor), those of Store.
  using RecordOf = std::function<NodeStatus(int number)>;
  Result<int> open_free(int first, int count, const RecordOf& record_of, int wanted);
  void publish(const NodeStatus& node);
  // Reports that a worker's process has ended: all its lives until now are dead.
  void report_end(std::string id);
  // Returns the workers whose ends have been reported to the job since the last call.
  struct ReportedEnd {
    std::string id{};
    bool has_any_joined = true;  // a worker had joined the job by then
  };
  std::vector<ReportedEnd> take_reported();
  View view() const;
  // Returns OK while this node belongs to this supervisor. kConflict: its lease had lapsed, and
  // another supervisor has taken the node; from then on it writes nothing.
  Status place() const;
  // Reports what is not yet reported, and the outcome of the job if it has ended. Then it removes
  // this node's record.
  Status close(std::string_view outcome);

 private:
  void keep(const StopToken& stop);
  Status turn();
  Status keep_lease();
  Status tell_record();
  Status tell_ends();
  Result<ReportedEnd> tell_end(const std::string& id);
  Status examine_place();
  void watch(const StopToken& stop);
  Status look();
  Status take_place(int first, int count, const RecordOf& record_of);
  Result<bool> take_free(int first, int count, const RecordOf& record_of);
  Status all_taken(int first, int count) const;
  void stop_tasks();
  Status end_lease();

  Store& store_;
  Runtime& runtime_;
  Event& bell_;
  const std::string job_;
  const Keys keys_;
  const std::unique_ptr<Event> changed_;  // there is something to report
  // Used by open_free(), then by the keeper task, then by close().
  int number_ = 0;
  LeaseId lease_ = kNoLease;
  Time next_renewal_{};
  std::string told_;      // this node's record; empty: it may be absent from the store
  Revision told_at_ = 0;  // revision of this supervisor's own record of the node; 0: none

  mutable base::Mutex mutex_;
  std::string record_ FFDL_GUARDED_BY(mutex_);
  std::vector<std::string> ended_ FFDL_GUARDED_BY(mutex_);
  std::vector<ReportedEnd> reported_ FFDL_GUARDED_BY(mutex_);
  View view_ FFDL_GUARDED_BY(mutex_);
  Status place_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> keeper_;
  std::unique_ptr<Task> watcher_;
};

}  // namespace ffdl::launch
