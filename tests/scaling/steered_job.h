#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "ffdl/membership.h"
#include "ffdl/store.h"
#include "launch/launcher.h"
#include "launch/supervisor.h"
#include "support/programs.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::testing {

// Returns true if the condition becomes true within the time that a busy machine needs.
inline bool comes_true(const std::function<bool()>& condition) {
  const Time patience = deadline_in(std::chrono::seconds(120));
  const auto never = system_runtime().make_event();
  while (!condition()) {
    if (deadline_in({}) > patience) return false;
    never->wait_until(deadline_in(std::chrono::milliseconds(5)));
  }
  return true;
}

// Runs a job of processes that train (support/steered_worker.cc), under a supervisor in this
// process.
class SteeredJob {
 public:
  // Starts `first_workers` of at most `workers`.
  SteeredJob(int workers, int first_workers) {
    const std::string url = "tcp://" + folder_.path() + "/store";
    store_ = *open_store(url, system_runtime());
    launch::SupervisorOptions options{.job = "steered", .max_workers = workers};
    options.command = {kSteeredWorker, folder_.path()};
    options.first_workers = first_workers;
    options.workers_per_node = workers;
    options.store_url = url;
    options.log_folder = folder_.path();
    launcher_ = *launch::make_local_launcher(*exited_);
    supervisor_ = *launch::Supervisor::start(*store_, system_runtime(), *launcher_, *exited_,
                                             std::move(options));
    task_ = system_runtime().spawn("supervisor", [this](const StopToken&) {
      outcome_ = supervisor_->run();
      ended_->set();
    });
  }
  ~SteeredJob() { supervisor_->kill(); }
  SteeredJob(const SteeredJob&) = delete;
  SteeredJob& operator=(const SteeredJob&) = delete;

  Store& store() { return *store_; }
  std::string file(const std::string& name) const { return folder_.file(name); }
  // Replaces the file atomically, since workers read it meanwhile.
  void write(const std::string& name, const std::string& text) const {
    folder_.write(name + ".part", text);
    std::filesystem::rename(folder_.file(name + ".part"), folder_.file(name));
  }
  std::string log_of(const std::string& id) const {
    std::ifstream in(folder_.file(id + ".log"));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Returns true if exactly these members train together.
  bool has_world_of(const std::set<std::string>& ids) {
    const auto job = read_job(*store_, "steered");
    if (!job.ok() || job->world.generation == 0 || job->world.phase != Phase::kActive) return false;
    std::set<std::string> there;
    for (const MemberStatus& one : job->members) {
      if (!one.is_alive || one.rank < 0) return false;
      there.insert(one.member.id);
    }
    return there == ids;
  }
  // Lets the workers finish. Returns the outcome of the job.
  Status finish() {
    write("end", "now");
    EXPECT_TRUE(ended_->wait_until(deadline_in(std::chrono::seconds(120))));
    task_.reset();
    return outcome_;
  }
  launch::Supervisor& supervisor() { return *supervisor_; }

 private:
  const TempFolder folder_;
  const std::unique_ptr<Event> exited_ = system_runtime().make_event();
  const std::unique_ptr<Event> ended_ = system_runtime().make_event();
  std::unique_ptr<Store> store_;
  std::unique_ptr<launch::Launcher> launcher_;
  std::unique_ptr<launch::Supervisor> supervisor_;
  Status outcome_;
  std::unique_ptr<Task> task_;
};

}  // namespace ffdl::testing
