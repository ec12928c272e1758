#include "sim/sim_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace ffdl::sim {
namespace {

// More switches than any schedule needs: a longer one is stuck in a loop.
thread_local const SimRuntime* running = nullptr;
constexpr uint64_t kSwitchesMax = 3'000'000;
constexpr uint64_t kSwitchesOfAnEpoch = 30'000;

// AddressSanitizer follows contexts, but no jumps between stacks. A jump needs no system call.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kJumps = false;
void before_switch(void** keep, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(keep, stack, bytes);
}
void after_switch(void* kept, const void** from, size_t* bytes) {
  __sanitizer_finish_switch_fiber(kept, from, bytes);
}
#else
constexpr bool kJumps = true;
void before_switch(void**, const void*, size_t) {}
void after_switch(void*, const void**, size_t*) {}
#endif

class SimEvent final : public Event {
 public:
  SimEvent(SimRuntime& runtime, const SimNode& clock) : runtime_(runtime), clock_(clock) {}

  void set() override {
    set_ = true;
    for (Fiber* fiber : waiting_) SimRuntime::make_ready(*fiber);
    waiting_.clear();
  }
  void reset() override { set_ = false; }
  bool wait_until(Time deadline) override {
    if (set_) return true;
    Fiber* self = runtime_.current();
    waiting_.push_back(self);
    runtime_.wait(clock_.when(deadline));
    std::erase(waiting_, self);
    return set_;
  }

 private:
  SimRuntime& runtime_;
  const SimNode& clock_;
  bool set_ = false;
  std::vector<Fiber*> waiting_;
};

class SimTask final : public Task {
 public:
  SimTask(SimRuntime& runtime, std::shared_ptr<Fiber> fiber)
      : runtime_(runtime), fiber_(std::move(fiber)) {}
  ~SimTask() override {
    fiber_->stop.request_stop();
    runtime_.join(*fiber_);
  }
  void request_stop() override { fiber_->stop.request_stop(); }

 private:
  SimRuntime& runtime_;
  const std::shared_ptr<Fiber> fiber_;
};

}  // namespace

// --- stacks and nodes ----------------------------------------------------------------------------

size_t Stacks::bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return size_t{1} << 20;
#else
  return size_t{128} << 10;
#endif
}

std::unique_ptr<char[]> Stacks::take() {
  if (free_.empty()) return std::unique_ptr<char[]>(new char[bytes()]);
  auto stack = std::move(free_.back());
  free_.pop_back();
  return stack;
}

Time SimNode::now() {
  const Duration elapsed = runtime_.elapsed();
  return Time(zero_ + elapsed + elapsed / 10'000 * drift_);
}

Time SimNode::boottime() { return runtime_.current()->node == this ? now() : Time(); }

Duration SimNode::when(Time time) const {
  if (time == kNoDeadline) return kNever;
  const Duration wanted = time.time_since_epoch() - zero_;
  if (wanted <= Duration::zero()) return Duration::zero();
  // Adds up to twice the rounding error of now(), so that the clock has surely reached `time`.
  return wanted / (10'000 + drift_) * 10'000 + std::chrono::microseconds(20);
}

std::string SimNode::process_mark() { return fmt::format("{}/{}", host_, name_); }

bool SimNode::has_ended(std::string_view process_mark) {
  const SimNode* node = runtime_.find_node(process_mark);
  return node != nullptr && node->host_ == host_ && node->is_killed();
}

uint64_t SimNode::random() { return runtime_.random(); }

std::unique_ptr<Event> SimNode::make_event() { return std::make_unique<SimEvent>(runtime_, *this); }

std::unique_ptr<Task> SimNode::spawn(std::string name, std::function<void(StopToken)> body) {
  return std::make_unique<SimTask>(runtime_,
                                   runtime_.start(*this, std::move(name), std::move(body)));
}

// --- the scheduler -------------------------------------------------------------------------------

SimNode& SimRuntime::make_node(std::string name) {
  const Duration zero = std::chrono::hours(1) + up_to(std::chrono::hours(1000));
  const int drift = nodes_.empty() ? 0 : static_cast<int>(below(101)) - 50;
  nodes_.push_back(std::make_unique<SimNode>(*this, std::move(name), zero, drift));
  return *nodes_.back();
}

const SimNode* SimRuntime::find_node(std::string_view process_mark) const {
  const auto found = std::ranges::find_if(
      nodes_, [&](const auto& node) { return node->process_mark() == process_mark; });
  return found == nodes_.end() ? nullptr : found->get();
}

std::shared_ptr<Fiber> SimRuntime::start(SimNode& node, std::string name,
                                         std::function<void(StopToken)> body) {
  auto fiber = std::make_shared<Fiber>();
  fiber->stack = stacks_.take();
  fiber->node = &node;
  fiber->number = ++last_number_;
  fiber->name = std::move(name);
  fiber->body = std::move(body);
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = Stacks::bytes();
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&fiber->context, reinterpret_cast<void (*)()>(&SimRuntime::enter), 2,
              static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
  fibers_.push_back(fiber);
  return fiber;
}

void SimRuntime::enter(unsigned low, unsigned high) {
  auto* runtime = reinterpret_cast<SimRuntime*>((uintptr_t{high} << 32) | low);
  after_switch(nullptr, &runtime->scheduler_stack_, &runtime->scheduler_stack_bytes_);
  Fiber& self = *runtime->current_;
  self.body(self.stop.get_token());
  self.body = nullptr;
  self.state = Fiber::State::kFinished;
  before_switch(nullptr, runtime->scheduler_stack_, runtime->scheduler_stack_bytes_);
  if (kJumps) _longjmp(runtime->scheduler_place_, 1);
  setcontext(&runtime->scheduler_);
}

void SimRuntime::switch_to(Fiber& fiber) {
  current_ = &fiber;
  before_switch(&scheduler_fake_stack_, fiber.stack.get(), Stacks::bytes());
  const bool has_begun = std::exchange(fiber.has_begun, true);
  if (!kJumps) {
    swapcontext(&scheduler_, &fiber.context);
  } else if (_setjmp(scheduler_place_) == 0) {
    if (has_begun) _longjmp(fiber.place, 1);
    setcontext(&fiber.context);
  }
  after_switch(scheduler_fake_stack_, nullptr, nullptr);
  current_ = nullptr;
}

void SimRuntime::switch_back() {
  Fiber& self = *current_;
  before_switch(&self.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  if (!kJumps) {
    swapcontext(&self.context, &scheduler_);
  } else if (_setjmp(self.place) == 0) {
    _longjmp(scheduler_place_, 1);
  }
  after_switch(self.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
}

void SimRuntime::wait(Duration until) {
  current_->state = Fiber::State::kWaiting;
  current_->wake_at = until;
  switch_back();
}

void SimRuntime::sleep(Duration time) { wait(now_ + time); }

void SimRuntime::join(const Fiber& fiber) {
  if (fiber.state == Fiber::State::kFinished) return;
  current_->state = Fiber::State::kJoining;
  current_->joins = &fiber;
  switch_back();
}

bool SimRuntime::can_run(const Fiber& fiber) const {
  if (fiber.node->is_paused(now_)) return false;
  switch (fiber.state) {
    case Fiber::State::kReady:
      return true;
    case Fiber::State::kWaiting:
      return fiber.wake_at <= now_;
    case Fiber::State::kJoining:
      return fiber.joins->state == Fiber::State::kFinished;
    case Fiber::State::kFinished:
      return false;
  }
  return false;
}

bool SimRuntime::advance_time() {
  Duration next = kNever;
  for (const auto& fiber : fibers_) {
    if (fiber->node->is_paused(now_)) {
      next = std::min(next, fiber->node->paused_until());
    } else if (fiber->state == Fiber::State::kWaiting) {
      next = std::min(next, fiber->wake_at);
    }
  }
  if (next == kNever) return false;
  now_ = std::max(now_, next);
  return true;
}

std::string SimRuntime::whereabouts() {
  if (running == nullptr || running->current_ == nullptr) return "-";
  const Fiber& fiber = *running->current_;
  const double seconds = std::chrono::duration<double>(running->now_).count();
  return fmt::format("{:9.3f} s {} {}", seconds, fiber.node->name(), fiber.name);
}

std::string SimRuntime::run(std::function<void()> director) {
  running = this;
  start(make_node("director"), "director", [&](const StopToken&) { director(); });
  while (!fibers_.empty()) {
    ready_.clear();
    for (const auto& fiber : fibers_) {
      if (can_run(*fiber)) ready_.push_back(fiber.get());
    }
    if (ready_.empty()) {
      if (!advance_time()) return "all wait for ever: " + describe();
      continue;
    }
    if (++switches_ > kSwitchesMax + epochs_ * kSwitchesOfAnEpoch)
      return "they do not end: " + describe();
    Fiber& next = *ready_[below(ready_.size())];
    hash_ = (hash_ ^ next.number ^ static_cast<uint64_t>(now_.count())) * 0x9e3779b97f4a7c15U;
    hash_ ^= hash_ >> 29;
    next.state = Fiber::State::kReady;
    switch_to(next);
    if (next.state != Fiber::State::kFinished) continue;
    stacks_.give_back(std::move(next.stack));
    std::erase_if(fibers_, [&](const auto& fiber) { return fiber.get() == &next; });
  }
  return {};
}

std::string SimRuntime::describe() const {
  std::string text;
  for (const auto& fiber : fibers_) {
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", fiber->name, fiber->node->name());
  }
  return text;
}

}  // namespace ffdl::sim
