#include "fault/end_kill_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "ffdl/log.h"
#include "ffdl/membership.h"
#include "ffdl/store.h"
#include "support/fork_child.h"
#include "support/sanitized.h"
#include "support/server_of.h"

namespace ffdl::end_kill {
namespace {

using namespace std::chrono_literals;

// The bound from the last event to the end of all processes. The longest documented wait is for the
// fence of a member.
constexpr Duration kPatience = FFDL_IS_SANITIZED ? 120s : 60s;

Time now() { return std::chrono::steady_clock::now(); }

std::string member_id(int number) { return fmt::format("w{}", number); }

Result<Reading> ask_store(const std::string& url) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(url, system_runtime(),
                                                     {.operation_timeout = kStoreWait}));
  FFDL_ASSIGN_OR_RETURN(const JobStatus status, read_job(*store, kJobName));
  Reading reading;
  reading.has_completion = status.completion.has_value();
  if (status.completion) reading.completion = *status.completion;
  reading.has_checkpoint = status.checkpoint.has_value();
  if (status.checkpoint) reading.checkpoint_lineage = status.checkpoint->lineage;
  if (status.checkpoint) reading.checkpoint_step = status.checkpoint->step;
  return reading;
}

Status tell_death(const std::string& url, const std::string& id) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(url, system_runtime(),
                                                     {.operation_timeout = kStoreWait}));
  FFDL_ASSIGN_OR_RETURN(const uint64_t last, last_incarnation(*store, kJobName, id));
  return last == 0 ? Status() : ffdl::report_death(*store, kJobName, {id, last, ""});
}

JobStatus status_of(const Reading& reading) {
  JobStatus status;
  if (reading.has_completion) status.completion = reading.completion;
  if (!reading.has_checkpoint) return status;
  status.checkpoint.emplace();
  status.checkpoint->lineage = reading.checkpoint_lineage;
  status.checkpoint->step = reading.checkpoint_step;
  return status;
}

}  // namespace

std::string Counts::describe() const {
  return fmt::format(
      "{} kills before, {} in and {} after finish() ({} of the store's server; {} times of all), "
      "{} stops, {} beyond the fence, {} leaves, {} newcomers, {} restarts, {} of both after the "
      "end; {} lives finished, {} left, {} were cancelled, {} found the job done; {} finish() went "
      "back, {} jobs ended in a later lineage, {} begun anew",
      kills_before, kills_in, kills_after, kills_of_servers, kills_of_all, stops, long_stops,
      leaves, newcomers, restarts, late_openers, finished, left, cancelled, job_done, went_back,
      lineages, begun_anew);
}

JobRun::JobRun(Plan plan, Board& board, Counts& counts, uint64_t seed)
    : plan_(std::move(plan)),
      board_(board),
      counts_(counts),
      random_(seed),
      pending_(plan_.disturbances),
      last_event_(now()),
      journal_(fmt::format("{}/{}journal", plan_.options.folder, kLogPrefix)) {
  std::construct_at(&board_);
  processes_.reserve(kLivesMax);
}

JobRun::~JobRun() { end_all(); }

std::vector<std::string> JobRun::run() {
  start_missing_members();
  next_number_ = plan_.options.members;
  while (!is_over_ && problems_.empty()) {
    reap();
    look_for_moments();
    run_due();
    if (running().empty() && due_.empty() && reporters_ == 0) go_on_when_quiet();
    if (now() > last_event_ + kPatience) {
      for (const Process* one : running()) {
        problems_.push_back(fmt::format(
            "{} (pid {}) does not end: stage {}, {} samples committed", one->start.id, one->pid,
            static_cast<int>(one->life->stage.load()), one->life->committed.load()));
      }
      if (problems_.empty()) problems_.push_back("a report of a death does not end");
    }
    std::this_thread::sleep_for(200us);
  }
  end_all();
  if (problems_.empty()) check();
  return problems_;
}

// --- processes -----------------------------------------------------------------------------------

void JobRun::start(const std::string& id) {
  if (is_running(id) || processes_.size() == kLivesMax) return;
  last_event_ = now();
  Life& life = board_.lives[processes_.size()];
  const bool is_late = is_complete();
  Process& process = processes_.emplace_back();
  process.start = {id, is_late, random_(), {}};
  process.life = &life;
  if (process.start.is_late) ++counts_.late_openers;
  process.pid = testing::fork_child();
  if (process.pid != 0) note(process, is_late ? "starts late" : "starts");
  if (process.pid == 0) _exit(run_member(plan_.options, process.start, life));
}

void JobRun::start_missing_members() {
  for (int number = 0; number < plan_.options.members; ++number) start(member_id(number));
}

void JobRun::report_death(const std::string& id) {
  if (testing::fork_child() == 0) {
    set_log_sink([](LogLevel, std::string_view) {});
    const Status told = tell_death("tcp://" + plan_.options.folder + "/store", id);
    _exit(told.ok() ? 0 : 1);
  }
  ++reporters_;
}

void JobRun::reap() {
  int wait_status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto process = std::find_if(processes_.begin(), processes_.end(),
                                      [&](const Process& one) { return one.pid == pid; });
    if (process != processes_.end()) {
      note_end(*process, wait_status);
      continue;
    }
    --reporters_;
    if (wait_status != 0) problems_.push_back("a death could not be reported");
  }
}

void JobRun::note_end(Process& process, int wait_status) {
  last_event_ = now();
  note(process, fmt::format("ended with {:#x}", wait_status));
  EndedLife& ended = process.ended;
  const Life& life = *process.life;
  ended.id = process.start.id;
  ended.pid = process.pid;
  ended.wait_status = wait_status;
  ended.is_late = process.start.is_late;
  ended.incarnation = life.incarnation;
  if (life.began != 0) ended.trained_for = now().time_since_epoch() - Duration(life.began);
  ended.applied = life.applied;
  ended.last_step = life.last_step;
  ended.last_hash = life.last_hash;
  process.pid = 0;
  counts_.finished += ended.has(kFinished) ? 1 : 0;
  counts_.left += ended.has(kLeft) ? 1 : 0;
  counts_.cancelled += ended.has(kCancelled) ? 1 : 0;
  counts_.job_done += ended.has(kJobDone) ? 1 : 0;
  counts_.went_back += life.went_back;
  if (ended.has(kWrong)) problems_.push_back(fmt::format("{} ended in error", ended.id));
}

// Reads the store in a child, because this process forks others and has no threads.
void JobRun::read_store() {
  const pid_t reader = testing::fork_child();
  if (reader == 0) {
    set_log_sink([](LogLevel, std::string_view) {});
    const auto reading = ask_store("tcp://" + plan_.options.folder + "/store");
    if (reading.ok()) board_.reading = *reading;
    _exit(reading.ok() ? 0 : 1);
  }
  int wait_status = 0;
  waitpid(reader, &wait_status, 0);
  if (wait_status != 0) problems_.push_back("the record of the job could not be read");
}

bool JobRun::is_running(const std::string& id) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const Process& one) { return one.pid != 0 && one.start.id == id; });
}

std::vector<JobRun::Process*> JobRun::running() {
  std::vector<Process*> all;
  for (Process& process : processes_) {
    if (process.pid != 0) all.push_back(&process);
  }
  return all;
}

void JobRun::end_all() {
  for (Process* process : running()) {
    kill(process->pid, SIGKILL);
    waitpid(process->pid, nullptr, 0);
    process->pid = 0;
  }
}

void JobRun::note(const Process& process, std::string_view what) {
  journal_ << fmt::format("{} {} (pid {}), stage {}: {}\n", log_time(), process.start.id,
                          process.pid, static_cast<int>(process.life->stage.load()), what)
           << std::flush;
}

// --- the choice of victims -----------------------------------------------------------------------

bool JobRun::is_complete() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& one) {
    return one.life->stage == Stage::kFinished || one.ended.has(kJobDone);
  });
}

// Returns true for a process that has the newest state and stays until the end.
bool JobRun::is_settled(const Process& process) const {
  uint64_t newest = 0;
  for (const Process& one : processes_) {
    if (one.pid != 0) newest = std::max(newest, one.life->generation.load());
  }
  const Life& life = *process.life;
  return process.pid != 0 && !process.is_stopped && life.steps > 0 && !life.must_leave &&
         life.generation == newest;
}

// Returns true if the job keeps its state without these, or needs it no more.
bool JobRun::may_lose(const std::vector<Process*>& victims) {
  if (is_complete()) return true;
  const auto all = running();
  return std::any_of(all.begin(), all.end(), [&](const Process* one) {
    return is_settled(*one) && std::find(victims.begin(), victims.end(), one) == victims.end();
  });
}

JobRun::Process* JobRun::find_server() {
  const pid_t server = server_of(plan_.options.folder + "/store");
  for (Process* one : running()) {
    if (one->pid == server) return one;
  }
  return nullptr;
}

// Returns the victims; empty if none may be lost now.
std::vector<JobRun::Process*> JobRun::choose(Kind kind) {
  std::vector<Process*> all = running();
  std::erase_if(all, [](const Process* one) { return one->is_stopped; });
  if (all.empty()) return {};
  std::vector<Process*> victims;
  if (kind == Kind::kKillServer) {
    Process* server = find_server();
    if (server != nullptr && !server->is_stopped) victims.push_back(server);
  } else if (kind == Kind::kKillMost) {
    victims = all;
    victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(random_() % victims.size()));
  } else {
    victims.push_back(all[random_() % all.size()]);
  }
  if (kind != Kind::kStop && !may_lose(victims)) victims.clear();
  return victims;
}

// --- disturbances --------------------------------------------------------------------------------

bool JobRun::has_come(const Disturbance& one) const {
  const auto any = [this](auto&& is) {
    return std::any_of(processes_.begin(), processes_.end(),
                       [&](const Process& process) { return is(*process.life); });
  };
  switch (one.moment) {
    case Moment::kLastSteps:
      return any([&](const Life& life) { return life.committed >= one.committed; });
    case Moment::kInFinish:
      return any([](const Life& life) { return life.stage >= Stage::kFinishing; });
    case Moment::kAfterFinish:
      return is_complete();
    case Moment::kAllAreEnded:
      return false;  // go_on_when_quiet() handles it
  }
  return false;
}

void JobRun::look_for_moments() {
  std::erase_if(pending_, [this](const Disturbance& one) {
    if (!has_come(one)) return false;
    after(one.delay, [this, one] { act_when_possible(one); });
    return true;
  });
}

void JobRun::act_when_possible(const Disturbance& one) {
  if (act(one) || running().empty()) return;
  after(1ms, [this, one] { act_when_possible(one); });
}

bool JobRun::act(const Disturbance& one) {
  if (one.kind == Kind::kNewcomer) {
    add_newcomer();
    return true;
  }
  if (one.kind == Kind::kKillAll) {
    kill_all(one);
    return true;
  }
  const auto victims = choose(one.kind);
  for (Process* victim : victims) {
    if (one.kind == Kind::kLeave) {
      ask_to_leave(*victim);
    } else if (one.kind == Kind::kStop || one.kind == Kind::kStopLong) {
      stop(*victim, one);
    } else {
      if (victim == find_server()) ++counts_.kills_of_servers;
      kill_one(*victim, one);
    }
  }
  return !victims.empty();
}

// Kills all members. The state is lost if the job is not done and has no checkpoint.
void JobRun::kill_all(const Disturbance& one) {
  if (running().empty()) return;
  ++counts_.kills_of_all;
  may_be_lost_ = true;
  Disturbance without_again = one;
  without_again.again = Again::kNever;
  without_again.is_reported = false;
  for (Process* victim : running()) kill_one(*victim, without_again);
  after(one.again_delay, [this] {
    counts_.restarts += static_cast<uint64_t>(plan_.options.members);
    start_missing_members();
  });
}

void JobRun::kill_one(Process& victim, const Disturbance& one) {
  last_event_ = now();
  count_kill(victim);
  kill(victim.pid, SIGKILL);
  victim.ended.was_killed = true;
  int wait_status = 0;
  waitpid(victim.pid, &wait_status, 0);
  note_end(victim, wait_status);
  const std::string id = victim.start.id;
  const bool is_again_soon = one.again == Again::kSoon || one.again == Again::kAfterLease;
  if (one.is_reported && !is_again_soon) report_death(id);
  if (one.again == Again::kAfterEnd) again_after_end_.push_back(id);
  if (!is_again_soon) return;
  after(one.again_delay, [this, id] {
    ++counts_.restarts;
    start(id);
  });
}

void JobRun::count_kill(const Process& victim) {
  const Stage stage = victim.life->stage;
  if (stage < Stage::kFinishing) {
    ++counts_.kills_before;
  } else if (stage == Stage::kFinishing) {
    ++counts_.kills_in;
  } else {
    ++counts_.kills_after;
  }
}

void JobRun::stop(Process& victim, const Disturbance& one) {
  const bool is_long = one.kind == Kind::kStopLong;
  ++(is_long ? counts_.long_stops : counts_.stops);
  // A store that stops for so long ends all lives.
  const bool ends_all = is_long && &victim == find_server();
  may_be_lost_ = may_be_lost_ || ends_all;
  for (Process* process : running()) {
    if (ends_all || process == &victim) process->ended.may_be_cancelled = true;
  }
  victim.life->steps = 0;
  victim.is_stopped = true;
  note(victim, is_long ? "stops beyond the fence" : "stops");
  kill(victim.pid, SIGSTOP);
  after(one.stop_time, [this, &victim] {
    last_event_ = now();
    if (victim.pid == 0) return;  // it was killed
    victim.life->steps = 0;
    victim.is_stopped = false;
    note(victim, "goes on");
    kill(victim.pid, SIGCONT);
  });
}

void JobRun::ask_to_leave(Process& victim) {
  ++counts_.leaves;
  note(victim, "shall leave");
  victim.life->must_leave = true;
  victim.ended.was_asked_to_leave = true;
}

void JobRun::add_newcomer() {
  ++counts_.newcomers;
  start(member_id(next_number_++));
}

void JobRun::after(Duration delay, std::function<void()> act) {
  due_.push_back({now() + delay, std::move(act)});
}

void JobRun::run_due() {
  std::vector<Due> ready;
  std::erase_if(due_, [&](Due& one) {
    if (one.at > now()) return false;
    ready.push_back(std::move(one));
    return true;
  });
  for (const Due& one : ready) one.act();
}

// --- the end -------------------------------------------------------------------------------------

// Continues when no process runs and none is about to start.
void JobRun::go_on_when_quiet() {
  last_event_ = now();
  read_store();
  if (!board_.reading.has_completion) {
    if (!may_be_lost_) problems_.push_back("all have ended, and the job is not done");
    may_be_lost_ = false;
    if (problems_.empty()) start_missing_members();
    return;
  }
  std::vector<std::string> late;
  late.swap(again_after_end_);
  for (const std::string& id : late) {
    ++counts_.restarts;
    start(id);
  }
  std::erase_if(pending_, [this, &late](const Disturbance& one) {
    if (one.moment == Moment::kAllAreEnded) {
      add_newcomer();
      late.push_back("");
    }
    return true;  // no other moment can arrive any more
  });
  is_over_ = late.empty();
}

void JobRun::check() {
  std::vector<EndedLife> lives;
  for (const Process& process : processes_) lives.push_back(process.ended);
  const JobFindings findings = check_job(plan_.options, lives, status_of(board_.reading));
  problems_ = findings.problems;
  if (findings.lineages > 1) ++counts_.lineages;
  if (findings.was_begun_anew) ++counts_.begun_anew;
}

}  // namespace ffdl::end_kill
