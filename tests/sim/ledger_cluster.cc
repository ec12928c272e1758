#include "sim/ledger_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/ledger_worker.h"
#include "store/local/memory_store.h"

namespace ffdl::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kLedgerWorkersMax = 4;

class LedgerCluster {
 public:
  LedgerCluster(SimRuntime& runtime, uint64_t seed, uint64_t epochs)
      : runtime_(runtime),
        store_node_(runtime.make_node("store")),
        store_(store_node_),
        job_{runtime, checker_, data_of(seed, epochs), 300ms, 40ms, 1 + seed % 9, 1, {}, {}, 0},
        checker_(job_.data) {}

  const LedgerChecker& checker() const { return checker_; }
  uint64_t lives() const { return started_ + job_.returns; }
  uint64_t lineages() const { return job_.lineage; }

  void direct() {
    draw();
    start("w0");
    while (!is_done() && checker_.violation().empty()) {
      runtime_.sleep(runtime_.up_to(100ms));
      faults_.store_is_away = runtime_.elapsed() < away_until_;
      std::erase_if(workers_,
                    [&](const auto& worker) { return worker->has_ended() && !is_done(*worker); });
      if (runtime_.chance(trouble_)) act();
      if (count_living() == 0 || runtime_.chance(0.05)) start_new();
    }
    finish();
    for (const auto& worker : workers_) worker->node().kill();
    workers_.clear();
  }

 private:
  static LedgerOptions data_of(uint64_t seed, uint64_t epochs) {
    return {.samples = 10 + seed % 23,
            .partition_samples = 1 + seed % 7,
            .epochs = epochs,
            .seed = seed,
            .shuffle = static_cast<Shuffle>(seed % 3)};
  }

  void draw() {
    const auto some = [&](double most) {
      return runtime_.chance(0.5) ? most * static_cast<double>(runtime_.below(100)) / 100 : 0.0;
    };
    const Duration delays[] = {0ms, 2ms, 20ms};
    faults_ = {delays[runtime_.below(3)], some(0.05), some(0.1), false};
    trouble_ = some(0.5);
    begins_anew_ = runtime_.chance(0.3);
  }

  void act() {
    const uint64_t kind = runtime_.below(6);
    if (kind == 5) return restart();
    if (kind == 4) {
      away_until_ = runtime_.elapsed() + runtime_.up_to(500ms);
      return;
    }
    LedgerWorker* worker = any_living();
    if (worker == nullptr) return;
    const Duration until = runtime_.elapsed() + runtime_.up_to(runtime_.chance(0.5) ? 100ms : 1s);
    if (kind == 0) {
      worker->node().pause_until(Duration::zero());
      worker->node().kill();
    }
    if (kind == 1) worker->node().pause_until(until);
    if (kind == 2) worker->store().cut_off_until(until);
    if (kind == 3) worker->ask_to_leave();
  }

  // Kills most workers. The job continues from its last checkpoint, and the survivors find out.
  void restart() {
    if (!begins_anew_ || !runtime_.chance(0.1)) return;
    for (const auto& worker : workers_) {
      if (runtime_.chance(0.8)) worker->node().kill();
    }
    checker_.on_restart();
    job_.from = job_.saved;
    ++job_.lineage;
  }

  size_t count_living() const {
    return static_cast<size_t>(std::count_if(
        workers_.begin(), workers_.end(),
        [](const auto& worker) { return !worker->has_ended() && !worker->node().is_killed(); }));
  }
  LedgerWorker* any_living() {
    std::vector<LedgerWorker*> living;
    for (const auto& worker : workers_) {
      if (!worker->has_ended() && !worker->node().is_killed()) living.push_back(worker.get());
    }
    return living.empty() ? nullptr : living[runtime_.below(living.size())];
  }
  bool is_done(const LedgerWorker& worker) const {
    return worker.is_done() && worker.lineage() == job_.lineage;
  }
  bool is_done() const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& worker) { return is_done(*worker); });
  }

  // Starts a worker under an id that another had before, and sometimes still has.
  void start_new() {
    if (count_living() < kLedgerWorkersMax) start(fmt::format("w{}", runtime_.below(6)));
  }
  void start(const std::string& id) {
    SimNode& node = runtime_.make_node(fmt::format("{}.{}", id, ++started_));
    auto store = std::make_unique<FaultyStore>(store_, store_node_, runtime_, node, faults_,
                                               Mutant::kNone, [](Revision, const Entry&) {});
    workers_.push_back(std::make_unique<LedgerWorker>(job_, node, std::move(store), id));
  }

  // Joins one more worker, which reports the last commit of any worker.
  void finish() {
    if (!checker_.violation().empty()) return;
    StoreLedgerOptions options;
    options.member.on_stable = [this](const CommittedStep& step) {
      checker_.on_committed(job_.lineage, step, "last");
    };
    options.id = "last";
    options.lineage = job_.lineage;
    const auto last = make_store_ledger(job_.data, options, store_, store_node_);
    if (!last.ok()) return checker_.violation(last.status().to_string());
    if (!(*last)->is_done()) return checker_.violation("one says that all is done, and it is not");
    checker_.check_end((*last)->repeated());
  }

  SimRuntime& runtime_;
  SimNode& store_node_;
  store::MemoryStore store_;
  Faults faults_;
  LedgerJob job_;
  LedgerChecker checker_;
  std::vector<std::unique_ptr<LedgerWorker>> workers_;
  Duration away_until_{};
  double trouble_ = 0;
  bool begins_anew_ = false;
  uint64_t started_ = 0;
};

}  // namespace

Outcome simulate_ledger(uint64_t seed, uint64_t epochs, Stacks& stacks) {
  SimRuntime runtime(seed, stacks, epochs);
  auto cluster = std::make_unique<LedgerCluster>(runtime, seed, epochs);
  const std::string stuck = runtime.run([&] { cluster->direct(); });
  const LedgerChecker& checker = cluster->checker();
  Outcome outcome;
  outcome.violation = checker.violation().empty() ? stuck : checker.violation();
  outcome.schedule_hash = runtime.schedule_hash();
  outcome.switches = runtime.switches();
  outcome.stable_steps = checker.commits();
  outcome.generations = cluster->lives();
  outcome.lineages = cluster->lineages();
  if (!stuck.empty()) static_cast<void>(cluster.release());  // same reason as in simulate()
  return outcome;
}

}  // namespace ffdl::sim
