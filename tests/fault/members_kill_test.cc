// Runs members of a job, each a process, over a store that one of them serves. They join and leave,
// are killed and stopped, the server among them. Afterwards all that live must agree on one world.
// With --calm the machine is only busy: the world must stay.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/membership.h"
#include "membership/keys.h"
#include "support/fork_child.h"
#include "support/server_of.h"
#include "support/shared_board.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kMembersMax = 256;
constexpr size_t kGenerationsMax = size_t{1} << 20;
constexpr Duration kPatience = 60s;

struct Plan {
  size_t members = 16;
  uint64_t seconds = 10;
  bool calm = false;
  std::string beside{};  // a command that keeps running, two processes at a time
  uint64_t seed = std::random_device{}();
};

// The world of one member; 0 while it is in no active world.
struct Place {
  std::atomic<uint64_t> generation;
  std::atomic<uint64_t> members;  // members of that world
};

// State that members write and their parent reads. Relaxed throughout: the words are independent.
struct Board {
  std::array<Place, kMembersMax> places;
  std::array<std::atomic<uint64_t>, kGenerationsMax> digests;  // hash of the members, by generation
  std::atomic<uint64_t> newest;
  std::atomic<uint64_t> lineage;
  std::atomic<bool> contradicted;
};

void raise_to(std::atomic<uint64_t>& highest, uint64_t value) {
  uint64_t known = highest.load(std::memory_order_relaxed);
  while (known < value && !highest.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

// --- a member
// --------------------------------------------------------------------------------------

volatile sig_atomic_t asked_to_leave = 0;

class MemberProcess {
 public:
  MemberProcess(Board& board, size_t which, std::string folder)
      : board_(board), which_(which), folder_(std::move(folder)) {}

  // Returns 0 once the member has left.
  int run() {
    auto store = open_store("tcp://" + folder_, system_runtime());
    for (const Time until = deadline_in(kPatience); !store.ok() && Clock::now() < until;) {
      store = open_store("tcp://" + folder_, system_runtime());
    }
    if (!store.ok()) return fail(store.status());
    while (true) {
      auto joined =
          Membership::join(**store, system_runtime(), {fmt::format("m{}", which_), 0, ""});
      if (!joined.ok()) {
        if (joined.status().code() == StatusCode::kCancelled) return fail(joined.status());
        continue;  // the store is away, or answered too late
      }
      const Status life = live(**joined);
      place().generation.store(0, std::memory_order_relaxed);
      if (life.ok()) return 0;
    }
  }

 private:
  int fail(const Status& why) const {
    fmt::print("member {}: {}\n", which_, why.to_string());
    return 1;
  }
  Place& place() { return board_.places[which_]; }

  // Returns OK when the member has left, or else the reason for the end of this life.
  Status live(Membership& membership) {
    uint64_t generation = 0;
    while (true) {
      FFDL_RETURN_IF_ERROR(membership.life_status());
      if (asked_to_leave != 0 && membership.leave(deadline_in(20ms)).ok()) return {};
      const auto world = membership.wait_world_after(generation, deadline_in(50ms));
      if (!world.ok()) continue;
      generation = world->generation;
      place().generation.store(0, std::memory_order_relaxed);
      take_note(*world);
      membership.report_progress(generation, 0);
      if (world->rank < 0 || !membership.activate(generation, deadline_in(kPatience)).ok())
        continue;
      place().members.store(world->members.size(), std::memory_order_relaxed);
      place().generation.store(generation, std::memory_order_relaxed);
    }
  }

  void take_note(const World& world) {
    std::string text = fmt::format("{}", world.lineage);
    for (const Member& member : world.members) {
      text += fmt::format(" {}.{}", member.id, member.incarnation);
    }
    const uint64_t digest = std::hash<std::string>()(text) | 1;
    uint64_t known = 0;
    auto& first = board_.digests[world.generation % kGenerationsMax];
    if (!first.compare_exchange_strong(known, digest, std::memory_order_relaxed) &&
        known != digest) {
      board_.contradicted.store(true, std::memory_order_relaxed);
    }
    raise_to(board_.newest, world.generation);
    raise_to(board_.lineage, world.lineage);
  }

  Board& board_;
  const size_t which_;
  const std::string folder_;
};

// Blocks or unblocks SIGTERM, from before the fork until the child handles it.
void hold_back_sigterm(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(how, &set, nullptr);
}

// Runs a member whose process also computes all the time in a thread, as training does.
[[noreturn]] void become_member(Board& board, size_t which, const std::string& folder, bool works) {
  signal(SIGTERM, [](int) { asked_to_leave = 1; });
  hold_back_sigterm(SIG_UNBLOCK);
  std::jthread work;
  if (works) {
    work = std::jthread([](const std::stop_token& stop) {
      volatile uint64_t sum = 0;
      while (!stop.stop_requested()) sum = sum + 1;
    });
  }
  const int outcome = MemberProcess(board, which, folder).run();
  std::fflush(stdout);
  _exit(outcome);
}

// --- their parent
// ----------------------------------------------------------------------------------

class Parent {
 public:
  explicit Parent(Plan plan)
      : plan_(std::move(plan)), random_(plan_.seed), processes_(plan_.members) {}

  ~Parent() {
    for (const pid_t process : processes_) {
      if (process == 0) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    for (const pid_t process : beside_) {
      kill(-process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    munmap(&board_, sizeof board_);
  }

  bool run() {
    for (size_t i = 0; i < plan_.members; ++i) start(i);
    if (plan_.calm) return stay_calm();
    const Time end = deadline_in(std::chrono::seconds(plan_.seconds));
    while (Clock::now() < end && !failed_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(below(100)));
      act();
    }
    all_go_on();
    const bool agreed = wait_for_agreement();
    fmt::print(
        "{} killed, {} of them served the store; {} asked to leave, {} stopped; generation {}, "
        "lineage {}\n",
        killed_, servers_killed_, left_, stopped_, board_.newest.load(), board_.lineage.load());
    return agreed && all_leave() && !failed_;
  }

 private:
  size_t below(size_t end) { return random_() % end; }

  void start(size_t which) {
    board_.places[which].generation.store(0, std::memory_order_relaxed);
    hold_back_sigterm(SIG_BLOCK);
    const pid_t child = testing::fork_child();
    if (child == 0) become_member(board_, which, folder_.path(), plan_.calm);
    hold_back_sigterm(SIG_UNBLOCK);
    processes_[which] = child;
  }

  void act() {
    const size_t which = below(plan_.members);
    if (below(8) == 0) all_go_on();
    collect();
    if (processes_[which] == 0) return start(which);
    const size_t kind = below(8);
    if (kind < 3) return kill_it(which);
    if (kind == 3) return kill_server();
    if (kind < 6) {
      kill(processes_[which], SIGTERM);
      ++left_;
    } else {
      kill(processes_[which], SIGSTOP);
      ++stopped_;
    }
  }

  void all_go_on() {
    for (const pid_t process : processes_) {
      if (process != 0) kill(process, SIGCONT);
    }
  }

  void kill_server() {
    const pid_t server = server_of(folder_.path());
    const auto found = std::find(processes_.begin(), processes_.end(), server);
    if (server == 0 || found == processes_.end()) return;
    ++servers_killed_;
    kill_it(static_cast<size_t>(found - processes_.begin()));
  }

  // Reports the death, as a launcher does that has seen the end of the process.
  void kill_it(size_t which) {
    kill(processes_[which], SIGKILL);
    waitpid(processes_[which], nullptr, 0);
    processes_[which] = 0;
    ++killed_;
    if (below(2) == 0) return;  // or its launcher died with it
    const std::string id = fmt::format("m{}", which);
    const auto store = open_store("tcp://" + folder_.path(), system_runtime());
    if (!store.ok()) return;
    const auto last = (*store)->get(membership::Keys("job").incarnation(id));
    if (last.ok()) {
      static_cast<void>(report_death(**store, "job", {id, std::stoull(last->value)}).ok());
    }
  }

  // Collects members that have left, at any time.
  void collect() {
    for (pid_t& process : processes_) {
      int status = 0;
      if (process == 0 || waitpid(process, &status, WNOHANG) != process) continue;
      process = 0;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fmt::print("a member ended with status {:#x}\n", status);
        failed_ = true;
      }
    }
  }

  // Returns true if all living members are in the newest world, and it has no others.
  bool agree() const {
    uint64_t living = 0;
    const uint64_t newest = board_.newest.load(std::memory_order_relaxed);
    for (size_t i = 0; i < plan_.members; ++i) {
      if (processes_[i] == 0) continue;
      ++living;
      if (board_.places[i].generation.load(std::memory_order_relaxed) != newest) return false;
    }
    for (size_t i = 0; i < plan_.members; ++i) {
      if (processes_[i] == 0) continue;
      if (board_.places[i].members.load(std::memory_order_relaxed) != living) return false;
    }
    return true;
  }

  bool wait_for_agreement() {
    const Time began = Clock::now();
    while (!agree()) {
      if (Clock::now() > began + kPatience) {
        fmt::print("they do not agree within {} s\n",
                   std::chrono::duration_cast<std::chrono::seconds>(kPatience).count());
        return false;
      }
      std::this_thread::sleep_for(1ms);
      collect();
    }
    fmt::print("{} live, and agree after {:.0f} ms\n",
               std::count_if(processes_.begin(), processes_.end(), [](pid_t p) { return p != 0; }),
               std::chrono::duration<double, std::milli>(Clock::now() - began).count());
    if (board_.contradicted.load()) fmt::print("a generation has two lists of members\n");
    return !board_.contradicted.load();
  }

  bool all_leave() {
    for (const pid_t process : processes_) {
      if (process != 0) kill(process, SIGTERM);
    }
    const auto is_over = [&] {
      return std::all_of(processes_.begin(), processes_.end(), [](pid_t p) { return p == 0; });
    };
    for (const Time until = deadline_in(kPatience); !is_over() && Clock::now() < until;) {
      std::this_thread::sleep_for(1ms);
      collect();
    }
    if (!is_over()) fmt::print("not all could leave\n");
    return is_over();
  }

  // --- load alone ---

  bool stay_calm() {
    if (!wait_for_agreement()) return false;
    uint64_t newest = board_.newest.load();
    const uint64_t before = newest;
    for (int i = 0; i < 2 && !plan_.beside.empty(); ++i) beside_.push_back(keep_running());
    const Time end = deadline_in(std::chrono::seconds(plan_.seconds));
    Duration longest{};
    for (Time now = Clock::now(); now < end;) {
      std::this_thread::sleep_for(10ms);
      longest = std::max(longest, Clock::now() - now);
      now = Clock::now();
      if (board_.newest.load() == newest) continue;
      newest = board_.newest.load();
      fmt::print("generation {}, {:.1f} s before the end\n", newest,
                 std::chrono::duration<double>(end - now).count());
    }
    fmt::print("{} new worlds in {} s; the parent's sleep of 10 ms took {:.0f} ms at most\n",
               newest - before, plan_.seconds,
               std::chrono::duration<double, std::milli>(longest).count());
    return newest == before;
  }

  pid_t keep_running() const {
    const std::string loop = fmt::format("while {}; do :; done", plan_.beside);
    const pid_t child = testing::fork_child();
    if (child != 0) return child;
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", loop.c_str(), nullptr);
    _exit(1);
  }

  const Plan plan_;
  const TempFolder folder_;
  Board& board_ = testing::make_shared_board<Board>();
  std::mt19937_64 random_;
  std::vector<pid_t> processes_;  // 0: none in this place
  std::vector<pid_t> beside_;     // leaders of their process groups
  bool failed_ = false;
  int killed_ = 0;
  int servers_killed_ = 0;
  int left_ = 0;
  int stopped_ = 0;
};

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);  // a long run prints its progress
  ffdl::Plan plan;
  const std::vector<std::string> args(argv + 1, argv + argc);
  for (size_t i = 0; i + 1 < args.size(); i += 2) {
    if (args[i] == "--members") plan.members = std::stoull(args[i + 1]);
    if (args[i] == "--seconds") plan.seconds = std::stoull(args[i + 1]);
    if (args[i] == "--calm") plan.calm = args[i + 1] == "1";
    if (args[i] == "--beside") plan.beside = args[i + 1];
    if (args[i] == "--seed") plan.seed = std::stoull(args[i + 1]);
  }
  if (plan.members > ffdl::kMembersMax) return 2;
  fmt::print("members_kill_test --members {} --seconds {} --calm {:d} --seed {}\n", plan.members,
             plan.seconds, plan.calm, plan.seed);
  std::fflush(stdout);
  return ffdl::Parent(plan).run() ? 0 : 1;
}
