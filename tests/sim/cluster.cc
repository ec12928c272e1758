#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "membership/keys.h"
#include "membership/leave_out.h"
#include "sim/ledger_cluster.h"
#include "sim/link_trouble.h"
#include "sim/session_worker.h"
#include "sim/worker.h"
#include "store/local/memory_store.h"

namespace ffdl::sim {
namespace {

using namespace std::chrono_literals;

constexpr size_t kWorkersMax = 4;

// Returns short times with the ratios of the defaults, so that many schedules run quickly.
MembershipOptions short_times(Recovery recovery) {
  MembershipOptions options;
  options.recovery = recovery;
  options.heartbeat = 90ms;
  options.step_timeout = 2s;
  options.fence_after = 1500ms;
  options.fence_margin = 100ms;
  return options;
}

// The properties of a schedule, drawn from its seed.
struct Setup {
  bool has_takeovers;
  Training training;
  bool has_disk;   // sessions write checkpoints to it
  bool has_links;  // links of sessions are cut and return
  bool finishes;   // after an epoch or two
  Recovery recovery;
};

class Cluster {
 public:
  Cluster(SimRuntime& runtime, const Schedule& schedule, const Setup& setup)
      : runtime_(runtime),
        of_(schedule.of),
        epochs_(schedule.epochs),
        kinds_(setup.has_takeovers ? kKinds : kTakeOver),
        store_node_(runtime.make_node("store")),
        store_(store_node_),
        exchange_(runtime),
        has_links_(setup.has_links),
        checker_([this](const Member& member) { return is_alive(member); },
                 setup.has_disk ? Checker::ReadCheckpoint([this](const CheckpointPointer& pointer) {
                   return read_checkpoint(disk_, checker_, pointer);
                 })
                                : nullptr),
        shared_{runtime,
                checker_,
                bus_,
                exchange_,
                [this](const Member& member) { return is_alive(member); },
                short_times(setup.recovery),
                {},
                schedule.mutant,
                setup.training,
                setup.finishes ? 1 + runtime.below(2) : 0,
                {setup.has_disk ? &disk_ : nullptr, 0, 1, {}}},
        links_(runtime, exchange_, checker_) {}

  const Checker& checker() const { return checker_; }
  const LinkTrouble& links() const { return links_; }

  void direct() {
    draw();
    const uint64_t first = 1 + runtime_.below(3);
    for (uint64_t i = 0; i < first; ++i) start_worker(fmt::format("w{}", i));
    const Duration end = 2s + runtime_.up_to(5s);
    while (is_under_way(end) && checker_.violation().empty()) {
      runtime_.sleep(runtime_.up_to(200ms));
      launch();
      if (has_links_) {
        measure();
        links_.act(workers_);
      }
      if (runtime_.chance(trouble_)) act();
    }
    calm_down();
    // A job whose last members died is known to be over once they would be fenced.
    // Members that could not connect may be kept apart for long, also after the links are back.
    const Duration calm = shared_.mutant == Mutant::kNone
                              ? 20s + shared_.options.fence_after + membership::kApartMax
                              : 4s;
    const Duration patience = runtime_.elapsed() + calm;
    while (checker_.violation().empty() && !has_recovered()) {
      if (runtime_.elapsed() > patience) {
        // A mutant must be found by its effect on the state, not by a stall.
        if (shared_.mutant == Mutant::kNone) checker_.violation("liveness: " + describe());
        break;
      }
      runtime_.sleep(100ms);
      launch();
      measure();
    }
    for (const auto& worker : workers_) worker->node().kill();
    workers_.clear();
    if (of_ == Of::kSession) checker_.check_epochs(SessionWorker::data_set());
  }

 private:
  struct Due {
    Duration at;
    std::string id;
    std::string takes_over_from;
  };
  struct Death {
    Duration at;
    Member member;
  };

  bool is_under_way(Duration end) const {
    if (epochs_ == 0) return runtime_.elapsed() < std::max(end, links_.isolated_until());
    return checker_.samples() < epochs_ * SessionWorker::data_set().samples;
  }

  void measure() {
    if (!has_prompt_steps()) return;
    links_.measure_members(workers_, shared_.options);
    links_.measure(workers_, shared_.options);
  }

  // Returns true if the bounds of stalls hold, because links are the only trouble. A step or world
  // takes longer beside a member that hangs, stops or is killed, on a slow disk, and with a store
  // that loses requests. The bounds have no time for these.
  bool has_prompt_steps() const { return is_measured_; }

  // Draws some kinds of trouble for each schedule.
  void draw() {
    const auto some = [&](double most) {
      return runtime_.chance(0.5) ? most * static_cast<double>(runtime_.below(100)) / 100 : 0.0;
    };
    const Duration delays[] = {1ms, 5ms, 40ms, 150ms};
    faults_ = {delays[runtime_.below(4)], some(0.02), some(0.05), false};
    const Duration computes[] = {20ms, 60ms, 150ms};
    shared_.pace = {runtime_.up_to(40ms),
                    runtime_.up_to(150ms),
                    computes[runtime_.below(3)],
                    some(0.2),
                    runtime_.chance(0.2) ? 0.02 : 0,
                    some(0.04)};
    trouble_ = 0.2 + some(0.8);
    reports_ = some(1);
    if (shared_.checkpointing.disk != nullptr) {
      shared_.checkpointing.every_steps = 1 + runtime_.below(8);
      shared_.checkpointing.keep_last = 1 + static_cast<int>(runtime_.below(2));
      shared_.checkpointing.faults = {runtime_.up_to(20ms), some(0.02), false};
    }
    for (uint64_t kind = 0; kind < kinds_; ++kind) enabled_[kind] = runtime_.chance(0.5);
    if (has_links_) draw_links();
  }

  // Half of the schedules have no other trouble, so that the longest stall can be measured.
  // Time-outs beyond any schedule reveal a wait for them.
  void draw_links() {
    is_measured_ = runtime_.chance(0.5);
    if (!is_measured_ && runtime_.chance(0.5)) return;
    shared_.operation_timeout = 300s;
    shared_.options.step_timeout = 250s;
    shared_.options.fence_after = 4s;
    shared_.pace.hang = 0;
    if (!is_measured_) return;
    faults_ = {5ms, 0, 0, false};
    shared_.pace.fail = 0;
    shared_.checkpointing.faults = {1ms, 0, false};
    trouble_ = 0;
  }

  // --- the adversary ---

  enum Kind { kKill, kPause, kCutOff, kStoreAway, kEndLease, kStart, kLeave, kTakeOver, kKinds };

  void act() {
    const auto kind = static_cast<Kind>(runtime_.below(kinds_));
    if (!enabled_[kind]) return;
    if (kind == kStart) return start_new("");
    if (kind == kStoreAway && shared_.checkpointing.disk != nullptr && runtime_.chance(0.5)) {
      full_until_ = runtime_.elapsed() + runtime_.up_to(1s);
      return;
    }
    if (kind == kStoreAway) {
      away_until_ = runtime_.elapsed() + runtime_.up_to(1s);
      return;
    }
    Process* worker = any_worker();
    if (worker == nullptr) return;
    const bool ends_it = kind == kKill || kind == kLeave || kind == kTakeOver;
    if (epochs_ > 0 && ends_it && !has_others()) return;
    const Duration now = runtime_.elapsed();
    if (kind == kKill) kill(*worker);
    if (kind == kPause) pause(*worker);
    if (kind == kCutOff)
      worker->store().cut_off_until(now + runtime_.up_to(runtime_.chance(0.5) ? 400ms : 4s));
    if (kind == kEndLease) end_lease_of(worker->id());
    if (kind == kLeave) worker->ask_to_leave();
    if (kind == kTakeOver) start_new(worker->id());
  }

  // Stops a process for up to two fences, and at times most of the job with it.
  void pause(Process& worker) {
    const Duration until =
        runtime_.elapsed() + runtime_.up_to(runtime_.chance(0.5) ? 400ms : 2 * fence());
    worker.node().pause_until(until);
    if (!runtime_.chance(0.3)) return;
    for (const auto& other : workers_) {
      if (other->node().is_killed() || !runtime_.chance(0.8)) continue;
      other->node().pause_until(until + runtime_.up_to(20ms));
    }
  }
  Duration fence() const {
    const MembershipOptions& options = shared_.options;
    return options.fence_after + options.fence_margin + options.lease;
  }

  // Returns true if the job keeps other members. An epoch takes long beside the life of a job whose
  // last members are killed.
  bool has_others() const {
    return std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
             return !worker->node().is_killed() && !worker->has_ended() && !worker->is_leaving();
           }) > 2;
  }
  Process* any_worker() {
    std::vector<Process*> living;
    for (const auto& worker : workers_) {
      if (!worker->node().is_killed() && !worker->has_ended()) living.push_back(worker.get());
    }
    return living.empty() ? nullptr : living[runtime_.below(living.size())];
  }

  void kill(Process& worker) {
    exchange_.die(worker.id());
    worker.node().pause_until(Duration::zero());
    worker.node().kill();
    const Duration now = runtime_.elapsed();
    if (worker.self() != nullptr && runtime_.chance(reports_)) {
      deaths_.push_back({now + runtime_.up_to(500ms), *worker.self()});
    }
    if (runtime_.chance(0.8)) {
      due_.push_back({now + runtime_.up_to(1s), worker.id(), worker.takes_over_from()});
    }
  }

  void end_lease_of(const std::string& id) {
    const auto entry = store_.get(membership::Keys("job").candidate(id));
    if (entry.ok()) static_cast<void>(store_.end_lease(entry->lease).ok());
  }

  void start_new(const std::string& takes_over_from) {
    for (size_t i = 0; i < kWorkersMax; ++i) {
      const std::string id = fmt::format("w{}", i);
      const auto has_id = [&](const auto& one) { return one.id == id; };
      const bool used = std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return worker->id() == id && !worker->node().is_killed() && !worker->has_ended();
      });
      if (used || std::any_of(due_.begin(), due_.end(), has_id)) continue;
      return start_worker(id, takes_over_from);
    }
  }

  // --- the launcher ---

  void start_worker(const std::string& id, const std::string& takes_over_from = "") {
    SimNode& node = runtime_.make_node(fmt::format("{}.{}", id, ++started_));
    node.put_on(static_cast<int>(started_ % 2));
    auto store = std::make_unique<FaultyStore>(
        store_, store_node_, runtime_, node, faults_, shared_.mutant,
        [this](Revision expected, const Entry& entry) { checker_.on_world(expected, entry); });
    if (of_ == Of::kMembership) {
      workers_.push_back(
          std::make_unique<Worker>(shared_, node, std::move(store), id, takes_over_from));
    } else {
      workers_.push_back(
          std::make_unique<SessionWorker>(shared_, node, std::move(store), id, takes_over_from));
    }
  }

  // Starts workers that are due, reports deaths, and forgets processes that have ended.
  void launch() {
    const Duration now = runtime_.elapsed();
    faults_.store_is_away = now < away_until_;
    shared_.checkpointing.faults.is_full = now < full_until_;
    for (const Due& due : take_due(due_, now)) {
      start_worker(due.id, due.takes_over_from);
    }
    for (const Death& death : take_due(deaths_, now)) {
      if (shared_.mutant == Mutant::kSameIncarnation) continue;
      static_cast<void>(report_death(store_, "job", death.member).ok());
    }
    if (shared_.mutant == Mutant::kLeaseProvesDeath) report_ended_leases();
    std::erase_if(workers_, [](const auto& worker) { return worker->has_ended(); });
  }

  template <class T>
  static std::vector<T> take_due(std::vector<T>& all, Duration now) {
    std::vector<T> due;
    for (const T& one : all) {
      if (one.at <= now) due.push_back(one);
    }
    std::erase_if(all, [&](const T& one) { return one.at <= now; });
    return due;
  }

  void report_ended_leases() {
    for (const auto& worker : workers_) {
      const Member* self = worker->self();
      if (self == nullptr) continue;
      if (store_.get(membership::Keys("job").candidate(self->id)).ok()) continue;
      static_cast<void>(report_death(store_, "job", *self).ok());
    }
  }

  // --- the end ---

  void calm_down() {
    away_until_ = full_until_ = {};
    links_.restore();
    shared_.checkpointing.faults = {1ms, 0, false};
    faults_ = {1ms, 0, 0, false};
    shared_.pace.hang = 0;
    shared_.pace.fail = 0;
    for (const auto& worker : workers_) {
      worker->store().cut_off_until({});
      worker->node().pause_until({});
    }
    if (due_.empty() && any_worker() == nullptr) start_worker("w9");
  }

  // Returns true if all living members that want to stay are one world that makes progress. A job
  // that is done has recovered, too, if a late member ends as the others did.
  bool has_recovered() {
    const auto& record = checker_.record();
    if (!due_.empty()) return false;
    if (shared_.epochs > 0 && any_worker() == nullptr && !std::exchange(has_late_worker_, true)) {
      start_worker("late");
    }
    if (shared_.epochs > 0) return any_worker() == nullptr;
    if (any_worker() == nullptr) return true;  // the last members left
    if (!record || record->phase != Phase::kActive) return false;
    size_t staying = 0;
    for (const auto& worker : workers_) {
      if (worker->has_ended() || worker->node().is_killed()) continue;
      if (worker->is_leaving()) return false;
      const Member* self = worker->self();
      const auto& members = record->members;
      if (self == nullptr || std::find(members.begin(), members.end(), *self) == members.end()) {
        return false;
      }
      ++staying;
    }
    return staying == record->members.size() && checker_.working_generation() == record->generation;
  }

  bool is_alive(const Member& member) const {
    return std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
      return worker->self() != nullptr && *worker->self() == member && worker->may_use_state();
    });
  }

  std::string describe() const {
    std::string text = "calm for long, and not one working world";
    if (checker_.record()) text += "; record " + encode(*checker_.record());
    for (const auto& worker : workers_) {
      text += fmt::format("; {}{}{}", worker->node().name(), worker->is_leaving() ? " leaving" : "",
                          worker->has_ended() ? " ended" : "");
    }
    return text;
  }

  SimRuntime& runtime_;
  const Of of_;
  const uint64_t epochs_;
  const uint64_t kinds_;  // kinds of trouble
  SimNode& store_node_;
  store::MemoryStore store_;
  Faults faults_;
  testing::MemoryFiles disk_;
  Bus bus_;
  Exchange exchange_;
  const bool has_links_;      // links of sessions are cut and return
  bool is_measured_ = false;  // links are the only trouble
  Checker checker_;
  Shared shared_;
  LinkTrouble links_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<Due> due_;
  std::vector<Death> deaths_;
  Duration away_until_{};
  Duration full_until_{};  // the disk is full until then
  double trouble_ = 0;
  double reports_ = 0;
  bool enabled_[kKinds] = {};
  uint64_t started_ = 0;
  bool has_late_worker_ = false;
};

Training training_of(uint64_t number) {
  if (number % 5 == 4) return Training::kBuckets;
  constexpr std::array kAll = {Training::kOnDemand, Training::kGlobal, Training::kNumbers,
                               Training::kMicroBatches};
  return kAll[number % kAll.size()];
}

// Keeps seeds that once found a fault as they were then.
Setup setup_of(const Schedule& schedule) {
  const uint64_t seed = schedule.seed;
  const bool is_session = schedule.of == Of::kSession;
  Setup setup{.has_takeovers = seed % 4 == 0,
              .training = training_of(seed / 4),
              .has_disk = is_session && seed % 4 == 3 && schedule.epochs == 0,
              .has_links = is_session && seed % 4 == 2 && schedule.epochs == 0,
              .finishes = is_session && schedule.epochs == 0 && (seed / 16) % 4 == 3,
              .recovery = Recovery::kForward};
  const bool goes_back = is_session ? setup.has_disk && seed % 8 == 3 : seed % 8 == 3;
  if (goes_back) setup.recovery = Recovery::kConsistent;
  if (schedule.has_all_trouble) {
    setup.has_disk = setup.has_links = setup.finishes = true;
    setup.recovery = Recovery::kConsistent;
  }
  return setup;
}

}  // namespace

Outcome simulate(const Schedule& schedule, Stacks& stacks) {
  if (schedule.of == Of::kLedger) {
    const uint64_t epochs = schedule.epochs > 0 ? schedule.epochs : 1 + schedule.seed % 5;
    return simulate_ledger(schedule.seed, epochs, stacks);
  }
  SimRuntime runtime(schedule.seed, stacks, schedule.epochs);
  auto cluster = std::make_unique<Cluster>(runtime, schedule, setup_of(schedule));
  const std::string stuck = runtime.run([&] { cluster->direct(); });
  Outcome outcome;
  const Checker& checker = cluster->checker();
  outcome.violation = checker.violation().empty() ? stuck : checker.violation();
  outcome.schedule_hash = runtime.schedule_hash();
  outcome.switches = runtime.switches();
  outcome.stable_steps = checker.stable_steps();
  outcome.checkpoints = checker.checkpoints();
  outcome.longest_stall = cluster->links().longest_stall();
  outcome.longest_member_stall = cluster->links().longest_member_stall();
  if (checker.record()) {
    outcome.generations = checker.record()->generation;
    outcome.lineages = checker.record()->lineage;
  }
  // Tasks that did not end keep their stacks and all that they own, so no thread can join them.
  if (!stuck.empty()) static_cast<void>(cluster.release());
  return outcome;
}

}  // namespace ffdl::sim
