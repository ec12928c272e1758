#include "elastic_digits/supervisor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "elastic_digits/worker.h"
#include "ffdl/log.h"

namespace elastic {
namespace {

using namespace std::chrono_literals;

// Changes of the workers, at given shares of the samples used.
enum class Deed { kStart, kKill, kLeave };
struct Event {
  double share;
  Deed deed;
  int worker;
};
constexpr Event kPlan[] = {
    {0.2, Deed::kStart, 1}, {0.4, Deed::kKill, 1}, {0.6, Deed::kStart, 2}, {0.8, Deed::kLeave, 0}};

class Run {
 public:
  Run(const Job& job, bool is_elastic) : job_(job), is_elastic_(is_elastic) {
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = std::construct_at(static_cast<Board*>(memory));
  }
  ~Run() { munmap(board_, sizeof(Board)); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Runs the job. Returns false if a worker ended with an error.
  bool go() {
    const uint64_t all = job_.options.epochs * job_.split.train.size();
    start(0);
    size_t next = 0;
    while (any_runs()) {
      const double share = static_cast<double>(board_->samples.load(std::memory_order_relaxed)) /
                           static_cast<double>(all);
      if (is_elastic_ && next < std::size(kPlan) && share >= kPlan[next].share && is_ready(next)) {
        carry_out(kPlan[next++]);
      }
      show(share);
      std::this_thread::sleep_for(5ms);
      reap();
    }
    show(1);
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\n");
    if (is_elastic_ && next < std::size(kPlan)) {
      fmt::print(stderr, "the training was over after {} of {} events; use more --epochs\n", next,
                 std::size(kPlan));
      return false;
    }
    return !has_failed_;
  }

 private:
  void start(int worker) {
    note("start", worker);
    pid_[static_cast<size_t>(worker)] = fork();
    if (pid_[static_cast<size_t>(worker)] != 0) return;
    const ffdl::Status outcome = train(job_, worker, *board_);
    if (!outcome.ok()) fmt::print(stderr, "worker {}: {}\n", worker, outcome.to_string());
    std::fflush(stderr);
    _exit(outcome.ok() ? 0 : 1);
  }

  // Returns true once the worker to be killed is training, or another worker can take over from the
  // one that leaves.
  bool is_ready(size_t event) const {
    if (kPlan[event].deed == Deed::kStart) return true;
    const int other = kPlan[event].deed == Deed::kKill ? kPlan[event].worker : 2;
    return board_->workers[static_cast<size_t>(other)].steps.load(std::memory_order_relaxed) > 20;
  }

  void carry_out(const Event& event) {
    if (event.deed == Deed::kStart) return start(event.worker);
    if (event.deed == Deed::kKill) {
      note("kill", event.worker);
      kill(pid_[static_cast<size_t>(event.worker)], SIGKILL);
    } else {
      note("leave", event.worker);
      board_->workers[static_cast<size_t>(event.worker)].leave.store(true,
                                                                     std::memory_order_relaxed);
    }
  }

  void note(const char* deed, int worker) {
    const double t_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - job_.start).count();
    std::ofstream(job_.log, std::ios::app)
        << fmt::format(R"({{"event":"{}","t_s":{:.4f},"run":"{}","worker":{}}})", deed, t_s,
                       job_.name, worker) +
               "\n";
  }

  bool any_runs() const {
    return std::any_of(pid_.begin(), pid_.end(), [](pid_t pid) { return pid > 0; });
  }

  void reap() {
    for (pid_t& pid : pid_) {
      int status = 0;
      if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid) continue;
      pid = 0;
      const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (!was_killed && status != 0) has_failed_ = true;
    }
  }

  // Shows a bar, on a terminal.
  void show(double share) {
    const int tenths = static_cast<int>(share * 1000);
    if (tenths == shown_ || job_.options.json || isatty(STDERR_FILENO) == 0) return;
    shown_ = tenths;
    const auto done = static_cast<size_t>(share * 40);
    fmt::print(stderr, "\r{:8} {:40} {:5.1f} %", job_.name, std::string(done, '='), share * 100);
    std::fflush(stderr);
  }

  const Job& job_;
  const bool is_elastic_;
  Board* board_ = nullptr;
  std::array<pid_t, kWorkersMax> pid_{};
  bool has_failed_ = false;
  int shown_ = -1;
};

// The results of the two runs.
struct Ends {
  std::optional<double> alone;
  std::optional<double> elastic;
  double difference = 0;  // the largest between the mean losses of one step
};

Ends compare(const std::string& log) {
  Ends ends;
  std::map<uint64_t, double> loss[2];  // by step: the sum over the workers' samples
  std::map<uint64_t, double> count[2];
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;
    const size_t run = event.at("run") == "elastic" ? 1 : 0;
    if (event.at("event") == "end") {
      (run == 1 ? ends.elastic : ends.alone) = event.at("test_accuracy").get<double>();
    }
    if (event.at("event") != "step") continue;
    const auto samples = event.at("samples").get<double>();
    loss[run][event.at("step")] += samples * event.at("loss").get<double>();
    count[run][event.at("step")] += samples;
  }
  for (const auto& [step, sum] : loss[1]) {
    // The log lacks a part of a step whose worker was killed before it wrote.
    if (!loss[0].contains(step) || count[0][step] != count[1][step] || sum == 0) continue;
    const double difference = std::abs(sum - loss[0][step]) / count[1][step];
    ends.difference = std::max(ends.difference, difference);
  }
  return ends;
}

}  // namespace

int supervise(const Options& options) {
  const auto all = digits::load_samples(options.data);
  if (!all.ok()) {
    fmt::print(stderr, "{}\n", all.status().to_string());
    return 1;
  }
  const auto split = digits::split_samples(*all);
  if (!split.ok()) {
    fmt::print(stderr, "{}\n", split.status().to_string());
    return 1;
  }
  ffdl::set_log_sink([](ffdl::LogLevel, std::string_view) {});
  std::filesystem::remove_all(options.out);
  std::filesystem::create_directories(options.out);
  const std::string folder = std::filesystem::absolute(options.out).string();
  const std::string log = folder + "/run.jsonl";
  bool all_well = true;
  for (const bool is_elastic : {false, true}) {
    const std::string name = is_elastic ? "elastic" : "alone";
    const Job job = {options, *split,
                     log,     "tcp://" + folder + "/store-" + name,
                     name,    std::chrono::steady_clock::now()};
    all_well = Run(job, is_elastic).go() && all_well;
  }
  const Ends ends = compare(log);
  if (!all_well || !ends.alone || !ends.elastic) return 1;
  if (options.json) {
    fmt::print(R"({{"alone":{{"test_accuracy":{:.6f}}},"elastic":{{"test_accuracy":{:.6f}}},)"
               R"("largest_loss_difference":{:.3g}}})"
               "\n",
               *ends.alone, *ends.elastic, ends.difference);
  } else {
    fmt::print("one worker from the first step to the last: {:.2f} % of the test images right\n",
               100 * *ends.alone);
    fmt::print("1 > 2 > killed > 2 > 1 workers:             {:.2f} %\n", 100 * *ends.elastic);
    fmt::print("the losses of equal steps differ by at most {:.1g}\n", ends.difference);
  }
  return 0;
}

}  // namespace elastic
