#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "ffdl/runtime.h"

// A Runtime with made-up time whose tasks run in turns. A seed always has the same schedule. Code
// of the control plane runs in it unchanged.
namespace ffdl::sim {

class SimRuntime;

// The stacks of tasks, kept from one simulation to the next.
class Stacks {
 public:
  static size_t bytes();
  std::unique_ptr<char[]> take();
  void give_back(std::unique_ptr<char[]> stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<std::unique_ptr<char[]>> free_;
};

// A process of the simulation. Its tasks stop together. Its clock has a zero of its own, and is up
// to half a percent faster or slower than others.
class SimNode final : public Runtime {
 public:
  SimNode(SimRuntime& runtime, std::string name, Duration zero, int drift_per_mille_tenths)
      : runtime_(runtime), name_(std::move(name)), zero_(zero), drift_(drift_per_mille_tenths) {}

  // Sets the host, on which processes can tell that others have ended.
  void put_on(int host) { host_ = host; }

  Time now() override;
  // Returns Time() to tasks of other processes: the checker and the adversary do not look at the
  // clock in this one's place.
  Time boottime() override;
  std::string process_mark() override;
  bool has_ended(std::string_view process_mark) override;
  uint64_t random() override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) override;

  const std::string& name() const { return name_; }
  // Returns true after a kill. All later calls of its tasks to the outside fail, so that they end.
  bool is_killed() const { return killed_; }
  void kill() { killed_ = true; }
  // Stops the process until then, as SIGSTOP does.
  void pause_until(Duration at) { paused_until_ = at; }
  bool is_paused(Duration at) const { return at < paused_until_; }
  Duration paused_until() const { return paused_until_; }
  // Returns the moment at which this clock will show `time`.
  Duration when(Time time) const;

 private:
  SimRuntime& runtime_;
  const std::string name_;
  const Duration zero_;
  const int drift_;
  int host_ = 0;
  bool killed_ = false;
  Duration paused_until_{};
};

inline constexpr Duration kNever = Duration::max();

// A task with a stack of its own. It runs when the scheduler resumes it.
struct Fiber {
  enum class State { kReady, kWaiting, kJoining, kFinished };

  ucontext_t context{};  // where it begins
  jmp_buf place{};       // where it was suspended
  bool has_begun = false;
  std::unique_ptr<char[]> stack;
  SimNode* node = nullptr;
  uint64_t number = 0;
  std::string name;
  std::function<void(StopToken)> body;
  StopSource stop;
  State state = State::kReady;
  Duration wake_at = kNever;
  const Fiber* joins = nullptr;
  void* fake_stack = nullptr;  // for AddressSanitizer
};

class SimRuntime {
 public:
  // `epochs` of training: with more of them a schedule may take longer than usual.
  SimRuntime(uint64_t seed, Stacks& stacks, uint64_t epochs = 0)
      : random_(seed), stacks_(stacks), epochs_(epochs) {}

  SimNode& make_node(std::string name);
  // Returns null if no process has this mark.
  const SimNode* find_node(std::string_view process_mark) const;

  // Runs `director` as a task, with all tasks that it starts, until all have ended. Returns an
  // empty text, or the reason to give up: all wait for ever, or they never end.
  std::string run(std::function<void()> director);

  Duration elapsed() const { return now_; }
  // Returns the time and the running task of the simulation on this thread, for its logs.
  static std::string whereabouts();
  uint64_t schedule_hash() const { return hash_; }
  uint64_t switches() const { return switches_; }

  // The functions below are for tasks.
  void sleep(Duration time);
  void yield() { sleep(Duration::zero()); }
  SimNode& current_node() { return *current_->node; }

  uint64_t random() { return random_(); }
  uint64_t below(uint64_t end) { return random_() % end; }
  bool chance(double probability) {
    return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
  }
  Duration up_to(Duration most) {
    return Duration(static_cast<int64_t>(below(static_cast<uint64_t>(most.count()) + 1)));
  }

  // The functions below are for SimNode and its events.
  std::shared_ptr<Fiber> start(SimNode& node, std::string name,
                               std::function<void(StopToken)> body);
  void join(const Fiber& fiber);
  Fiber* current() { return current_; }
  void wait(Duration until);
  static void make_ready(Fiber& fiber) { fiber.state = Fiber::State::kReady; }

 private:
  static void enter(unsigned low, unsigned high);
  void switch_to(Fiber& fiber);
  void switch_back();
  bool can_run(const Fiber& fiber) const;
  bool advance_time();
  std::string describe() const;

  std::mt19937_64 random_;
  Stacks& stacks_;
  const uint64_t epochs_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::shared_ptr<Fiber>> fibers_;  // fibers that have not ended
  std::vector<Fiber*> ready_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_{};
  jmp_buf scheduler_place_{};
  void* scheduler_fake_stack_ = nullptr;  // for AddressSanitizer
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
  Duration now_{};
  uint64_t hash_ = 0;
  uint64_t switches_ = 0;
  uint64_t last_number_ = 0;
};

}  // namespace ffdl::sim
