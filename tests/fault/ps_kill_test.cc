// Kills real processes. One driver starts a server and eight learners, kills learners and the
// server at random times with SIGKILL, and starts successors. At the end the weights must equal,
// bit for bit, the sum over exactly the samples that the ledger calls committed.
//
//   ps_kill_test --mini-batches N --kills N [--parameters N] [--server-share N]
//                [--recoveries N] [--sparse 0|1] [--device 0|1] [--seed N]
//                                                the driver: exit 0 when all holds, and at least so
//                                                many interrupted folds were finished
//   ps_kill_test server NAME adopt|PARAMETERS DEVICE
//                                                started by the driver; 1: a device of the tests
//                                                folds, with streams that are threads
//   ps_kill_test learner NAME SLOT TOTAL SPARSE  started by the driver
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "ps/server/server_impl.h"
#include "support/device_updates.h"

extern char** environ;

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kLearners = 8;
constexpr int kServerThreads = 2;
constexpr Duration kPatience = 5min;  // without progress

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "ps_kill_test: {}\n", why);
  std::_Exit(1);
}

template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.status().to_string());
  return std::move(result).value();
}

void check(const Status& status) {
  if (!status.ok()) fail(status.to_string());
}

// Fills in integers that differ for every learner and sample, so that a lost, repeated or torn
// gradient shows.
void fill_gradient(std::span<float> gradient, int slot, uint64_t sample) {
  const uint64_t mixed = (static_cast<uint64_t>(slot) << 40 | sample) * 0x9e3779b97f4a7c15;
  const auto start = static_cast<uint32_t>(mixed >> 32);
  for (uint32_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>((i * 0x9e3779b9U + start) >> 29) - 3;
  }
}

// Some rows of a table. The table begins, and its rows end, at odd places; a row may occur twice.
struct Rows {
  static constexpr uint64_t kTable = 3;
  static constexpr uint64_t kRowSize = 13;
  static constexpr uint64_t kCount = 6;

  Rows(int slot, uint64_t sample, uint64_t parameters) : values(kCount * kRowSize) {
    const uint64_t there = (parameters - kTable) / kRowSize;
    for (uint64_t i = 0; i < kCount; ++i) {
      const uint64_t mixed = (static_cast<uint64_t>(slot) << 40 | (sample * kCount + i));
      rows.push_back((mixed * 0x9e3779b97f4a7c15 >> 32) % there);
    }
    fill_gradient(values, slot, sample);
  }
  RowGradient gradient() const {
    return {.table = kTable, .row_size = kRowSize, .rows = rows, .values = values};
  }

  std::vector<uint64_t> rows;
  std::vector<float> values;
};

// Returns true for two gradients of three with --sparse.
bool is_sparse(bool sparse, uint64_t sample) { return sparse && sample % 3 != 0; }

int run_server(const std::string& name, const std::string& how, bool on_device) {
  const bool adopt = how == "adopt";
  testing::HostDevice device;
  constexpr uint64_t kSliceBytes = uint64_t{4} << 10;  // kills may hit between slices
  const ps::OtherDevices other{&device, &testing::update_on_host_device, kSliceBytes};
  ParameterServerOptions options;
  if (on_device) options.device = 0;
  options.name = name;
  options.parameters = adopt ? 0 : std::stoull(how);
  options.rule.learning_rate = 1;
  options.threads = kServerThreads;
  options.learners_max = kLearners;
  options.rows_max = static_cast<uint32_t>(options.parameters / Rows::kRowSize + 1);
  using Impl = ParameterServer::Impl;
  const auto server = take(adopt ? Impl::adopt(name, nullptr, other)
                                 : Impl::create(options, nullptr, nullptr, other));
  check(server->start());
  if (server->stats().device.has_value() != on_device) fail("it folds on the wrong side");
  // Waits for SIGKILL, or for the driver to close standard input.
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  check(server->stop());
  const auto stats = server->stats();
  const auto weights = server->weights();
  const auto write_all = [](const void* from, size_t bytes) {
    if (std::fwrite(from, 1, bytes, stdout) != bytes) fail("write the result");
  };
  for (int p = 0; p < kLearners; ++p)
    write_all(&stats.partitions[static_cast<size_t>(p)], sizeof(PartitionProgress));
  write_all(&stats.recoveries, sizeof stats.recoveries);
  write_all(weights.data(), weights.size_bytes());
  return 0;
}

int run_learner(const std::string& name, int slot, uint64_t total, bool sparse) {
  auto learner = take(Learner::attach(name, deadline_in(60s), {.slot = slot}));
  std::vector<float> weights(learner->parameters());
  const auto partition = static_cast<uint32_t>(slot);
  for (uint64_t sample = learner->committed(partition); sample < total; ++sample) {
    const SampleRange samples{.partition = partition, .begin = sample, .end = sample + 1};
    if (sample % 16 == 0) take(learner->pull(weights));
    if (is_sparse(sparse, sample)) {
      const Rows rows(slot, sample, weights.size());
      const RowGradient gradient = rows.gradient();
      take(learner->push(Gradient::sparse({&gradient, 1}), samples));
      continue;
    }
    fill_gradient(take(learner->gradient_slot(deadline_in(60s))), slot, sample);
    take(learner->push(Gradient::slot(), samples));
  }
  check(learner->detach(deadline_in(120s)));
  return 0;
}

struct Child {
  pid_t pid = -1;
  int input = -1;
  int output = -1;
};

Child spawn(std::vector<std::string> arguments) {
  int to_child[2];
  int from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) fail("pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  arguments.insert(arguments.begin(), "ps_kill_test");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Child child;
  if (posix_spawn(&child.pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0)
    fail("spawn");
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  child.input = to_child[1];
  child.output = from_child[0];
  return child;
}

void close_pipes(Child& child) {
  close(child.input);
  close(child.output);
  child = {};
}

struct Plan {
  uint64_t mini_batches = 10'000;
  uint64_t parameters = 6'000;
  int kills = 10;
  uint64_t server_share = 33;  // share of the server's kills, in percent
  uint64_t recoveries = 0;
  bool sparse = false;
  bool device = false;
  uint64_t seed = std::random_device{}();
};

class Driver {
 public:
  explicit Driver(const Plan& plan)
      : name_(fmt::format("kill-test-{}", getpid())),
        per_learner_(plan.mini_batches / kLearners),
        plan_(plan),
        kills_wanted_(plan.kills),
        random_(plan.seed) {}

  int run() {
    server_ = start_server(std::to_string(plan_.parameters));
    for (int slot = 0; slot < kLearners; ++slot) start_learner(slot);
    const auto began = std::chrono::steady_clock::now();
    while (!learners_.empty()) {
      reap();
      if (may_kill()) kill_one();
      if (learners_.empty() && wants_more_kills()) go_on();
      std::this_thread::sleep_for(1ms);
      check_progress();
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    check_result();
    fmt::print(
        "{} mini-batches of {} learners, {} learners and {} servers killed, {} interrupted folds "
        "finished by a successor, {:.1f} s: bit-exact, each sample once\n",
        per_learner_ * kLearners, kLearners, learner_kills_, server_kills_, recoveries_, seconds);
    if (recoveries_ < plan_.recoveries) fail("fewer interrupted folds than asked for");
    return 0;
  }

 private:
  Child start_server(const std::string& how) const {
    return spawn({"server", name_, how, plan_.device ? "1" : "0"});
  }

  void start_learner(int slot) {
    learners_[slot] = spawn({"learner", name_, std::to_string(slot), std::to_string(per_learner_),
                             plan_.sparse ? "1" : "0"});
  }

  // Adds a tenth more work for each learner. On a busy machine the learners end before the driver
  // has made all kills.
  void go_on() {
    per_learner_ += per_learner_ / 10 + 1;
    for (int slot = 0; slot < kLearners; ++slot) start_learner(slot);
  }

  int kills() const { return learner_kills_ + server_kills_; }

  // Wants more kills, up to ten times as many, while none has interrupted a fold.
  bool wants_more_kills() {
    const bool is_tried = stats().recoveries >= plan_.recoveries;
    if (kills() >= kills_wanted_ && !is_tried && kills_wanted_ < 10 * plan_.kills) {
      kills_wanted_ += kills_wanted_ / 10 + 1;
    }
    return kills() < kills_wanted_;
  }

  ParameterServerStats stats() {
    if (!view_) {
      auto opened = ParameterServerView::open(name_, deadline_in(60s));
      view_ = take(std::move(opened));
    }
    return view_->stats();
  }
  uint64_t committed() {
    uint64_t sum = 0;
    for (const PartitionProgress& partition : stats().partitions) sum += partition.committed;
    return sum;
  }

  void check_progress() {
    const std::pair progress{committed(), kills()};
    const Time now = std::chrono::steady_clock::now();
    if (progress != progress_) progressed_at_ = now;
    progress_ = progress;
    if (now - progressed_at_ > kPatience) fail("the learners do not go on");
  }

  // Collects learners that ended. Any end but a clean one or a kill of the driver is a failure.
  void reap() {
    for (auto it = learners_.begin(); it != learners_.end();) {
      int status = 0;
      if (waitpid(it->second.pid, &status, WNOHANG) == 0) {
        ++it;
        continue;
      }
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail(fmt::format("learner {} failed: {}", it->first, status));
      close_pipes(it->second);
      it = learners_.erase(it);
    }
    int status = 0;
    if (waitpid(server_.pid, &status, WNOHANG) != 0)
      fail(fmt::format("the server ended by itself: {}", status));
  }

  // Spreads kills over the run: the n-th comes when n / kills of all samples are committed.
  bool may_kill() {
    if (kills() >= kills_wanted_ || learners_.empty()) return false;
    const uint64_t total = per_learner_ * kLearners;
    return committed() >=
           total / static_cast<uint64_t>(kills_wanted_ + 2) * static_cast<uint64_t>(kills() + 1);
  }

  void kill_one() {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 2000));
    const bool the_server = random_() % 100 < plan_.server_share;
    int slot = -1;
    if (!the_server) {
      auto victim = learners_.begin();
      std::advance(victim, static_cast<int64_t>(random_() % learners_.size()));
      slot = victim->first;
    }
    Child& victim = the_server ? server_ : learners_[slot];
    kill(victim.pid, SIGKILL);
    int status = 0;
    waitpid(victim.pid, &status, 0);
    close_pipes(victim);
    if (the_server) {
      ++server_kills_;
      server_ = start_server("adopt");
    } else if (WIFSIGNALED(status)) {
      ++learner_kills_;
      start_learner(slot);
    } else {
      learners_.erase(slot);  // it had just ended by itself
    }
  }

  void check_result() {
    close(server_.input);
    std::vector<PartitionProgress> partitions(kLearners);
    std::vector<float> weights(plan_.parameters);
    read_all(partitions.data(), partitions.size() * sizeof(PartitionProgress));
    read_all(&recoveries_, sizeof recoveries_);
    read_all(weights.data(), weights.size() * sizeof(float));
    int status = 0;
    waitpid(server_.pid, &status, 0);
    if (status != 0) fail(fmt::format("the last server failed: {}", status));
    std::vector<float> expected(plan_.parameters);
    std::vector<float> gradient(plan_.parameters);
    for (int slot = 0; slot < kLearners; ++slot) {
      const PartitionProgress& p = partitions[static_cast<size_t>(slot)];
      if (p.committed != per_learner_ || p.samples != per_learner_ || p.repeated != 0 ||
          p.missing != 0) {
        fail(fmt::format("partition {}: committed {} of {}, {} samples, {} repeated, {} missing",
                         slot, p.committed, per_learner_, p.samples, p.repeated, p.missing));
      }
      for (uint64_t sample = 0; sample < per_learner_; ++sample) {
        if (is_sparse(plan_.sparse, sample)) {
          const Rows rows(slot, sample, plan_.parameters);
          for (uint64_t i = 0; i < rows.values.size(); ++i) {
            const uint64_t row = rows.rows[i / Rows::kRowSize];
            expected[Rows::kTable + row * Rows::kRowSize + i % Rows::kRowSize] -= rows.values[i];
          }
          continue;
        }
        fill_gradient(gradient, slot, sample);
        for (uint64_t i = 0; i < plan_.parameters; ++i) expected[i] -= gradient[i];
      }
    }
    if (std::memcmp(expected.data(), weights.data(), weights.size() * sizeof(float)) != 0) {
      fail("the weights differ from the sum of all gradients");
    }
    if (access(fmt::format("/dev/shm/ffdl.{}", name_).c_str(), F_OK) == 0)
      fail("the segment was left behind");
  }

  void read_all(void* to, size_t bytes) {
    auto* next = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t done = read(server_.output, next, bytes);
      if (done <= 0) fail("the last server sent no result");
      next += done;
      bytes -= static_cast<size_t>(done);
    }
  }

  const std::string name_;
  uint64_t per_learner_;
  const Plan plan_;
  int kills_wanted_;
  std::mt19937_64 random_;
  Child server_;
  std::map<int, Child> learners_;
  std::unique_ptr<ParameterServerView> view_;
  std::pair<uint64_t, int> progress_;  // samples committed, and kills
  Time progressed_at_ = std::chrono::steady_clock::now();
  int learner_kills_ = 0;
  int server_kills_ = 0;
  uint64_t recoveries_ = 0;
};

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 4 && args[0] == "server") {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no process of a test outlives it
    return ffdl::run_server(args[1], args[2], args[3] == "1");
  }
  if (args.size() == 5 && args[0] == "learner") {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return ffdl::run_learner(args[1], std::stoi(args[2]), std::stoull(args[3]), args[4] == "1");
  }
  ffdl::Plan plan;
  for (size_t i = 0; i + 1 < args.size(); i += 2) {
    const uint64_t value = std::stoull(args[i + 1]);
    if (args[i] == "--mini-batches") plan.mini_batches = value;
    if (args[i] == "--parameters") plan.parameters = value;
    if (args[i] == "--kills") plan.kills = static_cast<int>(value);
    if (args[i] == "--server-share") plan.server_share = value;
    if (args[i] == "--recoveries") plan.recoveries = value;
    if (args[i] == "--sparse") plan.sparse = value != 0;
    if (args[i] == "--device") plan.device = value != 0;
    if (args[i] == "--seed") plan.seed = value;
  }
  fmt::print(
      "ps_kill_test --mini-batches {} --parameters {} --kills {} --server-share {} --recoveries {} "
      "--sparse {:d} --device {:d} --seed {}\n",
      plan.mini_batches, plan.parameters, plan.kills, plan.server_share, plan.recoveries,
      plan.sparse, plan.device, plan.seed);
  std::fflush(stdout);
  return ffdl::Driver(plan).run();
}
