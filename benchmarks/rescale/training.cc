#include "benchmarks/rescale/training.h"

#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <iterator>

#include "ffdl/membership.h"

namespace ffdl::bench {
namespace {

constexpr std::chrono::seconds kTrainingPatience(600);

}  // namespace

Result<std::unique_ptr<Training>> Training::start(StartWorker start_worker) {
  FFDL_ASSIGN_OR_RETURN(auto store, StoreFolder::start());
  auto training =
      std::unique_ptr<Training>(new Training(std::move(store), std::move(start_worker)));
  FFDL_RETURN_IF_ERROR(training->add().status());
  return training;
}

Training::~Training() {
  end(workers_);
  end(gone_);
}

Status Training::wait(int members, int steps) {
  const auto& process = workers_.front().process;
  return process->ask(fmt::format("after {} {}", members, steps), kTrainingPatience).status();
}

Result<Time> Training::add() {
  end(gone_);
  const Time request = std::chrono::steady_clock::now();
  ids_.push_back(fmt::format("worker{}", ids_.size()));
  FFDL_ASSIGN_OR_RETURN(auto process, start_worker_(store_->path(), ids_.back()));
  workers_.push_back({std::move(process), {}});
  return request;
}

Result<Time> Training::remove(End end) {
  const size_t which = end == End::kKilledLeader ? 0 : workers_.size() - 1;
  gone_.push_back(std::move(workers_[which]));
  workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(which));
  const Resident& process = *gone_.back().process;
  const Time request = std::chrono::steady_clock::now();
  if (end == End::kLeaves) {
    FFDL_RETURN_IF_ERROR(gone_.back().process->tell("leave"));
  } else {
    kill(process.pid(), SIGKILL);
  }
  return request;
}

Result<Time> Training::stall_then_kill(Reports reports) {
  const pid_t stalled = workers_.front().process->pid();
  kill(stalled, SIGSTOP);
  const Status alone = workers_.back().process->ask("after 1 5", kTrainingPatience).status();
  const auto killed = alone.ok() ? remove(End::kKilled) : Result<Time>(alone);
  kill(stalled, SIGCONT);
  if (killed.ok() && reports == Reports::kDeaths) {
    gone_.back().process->reap();
    FFDL_RETURN_IF_ERROR(report_death_of(ids_.back()));
  }
  return killed;
}

Status Training::report_death_of(const std::string& id) const {
  const std::string job = MembershipOptions().job;
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + store_->path(), system_runtime()));
  FFDL_ASSIGN_OR_RETURN(const uint64_t incarnation, last_incarnation(*store, job, id));
  return report_death(*store, job, {id, incarnation});
}

Result<std::vector<StepTime>> Training::steps() {
  Worker& worker = workers_.front();
  FFDL_ASSIGN_OR_RETURN(const std::string line, worker.process->ask("report"));
  const auto news = read_steps(line);
  worker.steps.insert(worker.steps.end(), news.begin(), news.end());
  return worker.steps;
}

Result<AuditResult> Training::audit() {
  end(workers_);
  end(gone_);
  std::vector<std::string> texts;
  for (const std::string& id : ids_) {
    std::ifstream file(fmt::format("{}/audit-{}", store_->path(), id));
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return check_audit(texts);
}

void Training::end(std::vector<Worker>& workers) {
  for (Worker& worker : workers) {
    worker.process->kill_now();
    worker.process->reap();
  }
  workers.clear();
}

}  // namespace ffdl::bench
