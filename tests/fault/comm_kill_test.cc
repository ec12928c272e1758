#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "ffdl/comm/communicator.h"
#include "ffdl/diagnose.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/shared_board.h"
#include "support/slowness.h"
#include "support/temp_folder.h"

// Members of a world are killed in the middle of operations. Those who live must be told soon, and
// never get a wrong sum:
//   comm_kill_test BACKEND KILLS [timing]     BACKEND: shm, tcp, tls (tcp, encrypted) or gloo
// With "timing" the verdict is another: half of the survivors must be told within 50 ms, times the
// slowness of the machine. That may be tried again.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr uint64_t kOperationsPerKill = 40;  // at least, before the kill
constexpr uint64_t kSharedElements = 100'000;
constexpr Duration kPatience = 60s;
// From the kill, or from the call after it. Some are later, because the kernel takes the memory of
// the killed process apart before it closes its files.
constexpr Duration kToldWithin = 50ms;

// What the parent and the ranks of one generation tell each other.
struct Board {
  std::atomic<uint64_t> operations;  // ended well, over all ranks
  std::atomic<int64_t> killed_at;    // steady clock; 0: nobody is killed yet
  std::array<std::atomic<int64_t>, kRanks> told_after;  // ns, by rank
};

struct Plan {
  Backend backend = Backend::kShm;
  bool tls = false;
  uint64_t kills = 0;
  bool checks_timing = false;
};

struct Findings {
  uint64_t operations = 0;
  std::vector<Duration> told_after{};
  uint64_t wrong = 0;  // of those who lived: anything but being told
  std::set<int64_t> ranks{};  // their processes
};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

enum Outcome { kTold = 0, kWrongSum, kWrongError, kNotConnected };

// Sums of sizes that take one step, or many; until somebody is lost.
Outcome sum_until_lost(Communicator& communicator, const SharedMemory& memory, Board& board) {
  std::minstd_rand random(static_cast<unsigned>(communicator.world().generation));
  const auto factor = static_cast<uint64_t>(communicator.world().rank + 1);
  const auto all = static_cast<float>(kRanks * (kRanks + 1) / 2);
  uint64_t operations = 0;
  while (true) {
    const uint64_t size = random() % 8 == 0 ? random() % 300'000 : random() % 3'000;
    // Every other operation in memory that all ranks write to.
    const bool shared = ++operations % 2 == 0;
    const uint64_t count = shared ? memory.bytes() / sizeof(float) : size;
    std::vector<float> own(shared ? 0 : count);
    const std::span values(shared ? reinterpret_cast<float*>(memory.data()) : own.data(), count);
    for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i % 7) * factor);
    const int64_t called_at = now();
    const Status status = communicator.all_reduce({values.data(), count, DType::kFloat32},
                                                  ReduceOp::kSum, deadline_in(kPatience));
    const int64_t told_at = now();
    if (!status.ok()) {
      if (status.code() != StatusCode::kPeerLost) return kWrongError;
      const int64_t killed_at = board.killed_at.load();
      if (killed_at == 0) return kWrongError;
      board.told_after[static_cast<size_t>(communicator.world().rank)] =
          told_at - std::max(killed_at, called_at);
      return kTold;
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (values[i] != static_cast<float>(i % 7) * all) return kWrongSum;
    }
    board.operations.fetch_add(1);
  }
}

pid_t start(int rank, uint64_t generation, const std::string& url, const Plan& plan, Board& board) {
  const pid_t child = testing::fork_child();
  if (child != 0) return child;
  // A disk that is busy with other work may hold up who has the store's lock.
  auto store = open_store(url, system_runtime(), {.operation_timeout = kPatience});
  if (!store.ok()) _exit(kNotConnected);
  auto communicator =
      connect_communicator({generation, rank, testing::members_named(kRanks)}, **store,
                           deadline_in(kPatience), {.backend = plan.backend, .tls = plan.tls});
  auto memory = SharedMemory::allocate(kSharedElements * sizeof(float));
  if (!communicator.ok() || !memory.ok()) {
    fmt::print(stderr, "rank {}: {}\n", rank, communicator.status().to_string());
    _exit(kNotConnected);
  }
  if (!(*communicator)->register_memory(*memory).ok()) _exit(kNotConnected);
  _exit(sum_until_lost(**communicator, **memory, board));
}

// The outcome of each rank of a generation, one of which is killed.
void kill_one(const Plan& plan, uint64_t generation, const std::string& url, Board& board,
              std::mt19937& random, Findings& findings) {
  board.operations.store(0);
  board.killed_at.store(0);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(start(rank, generation, url, plan, board));
    findings.ranks.insert(ranks.back());
  }
  const Time patience = deadline_in(60s);
  while (board.operations.load() < kOperationsPerKill * kRanks &&
         std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(200us);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
  const size_t victim = random() % kRanks;
  board.killed_at.store(now());
  kill(ranks[victim], SIGKILL);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const int code = testing::exit_code(ranks[rank]);
    if (rank != victim && code == kTold) {
      findings.told_after.emplace_back(board.told_after[rank].load());
    }
    if (code == (rank == victim ? -SIGKILL : kTold)) continue;
    ++findings.wrong;
    fmt::print("generation {}: rank {} ended with {}, rank {} was killed\n", generation, rank, code,
               victim);
  }
  findings.operations += board.operations.load();
}

// Counts the segments that ranks of this test have left behind.
uint64_t count_left(const std::set<int64_t>& ranks) {
  uint64_t left = 0;
  for (const SegmentInfo& segment : *list_segments()) {
    left += segment.kind == "communicator" && ranks.contains(segment.creator_pid) ? 1 : 0;
  }
  return left;
}

double in_ms(Duration time) { return static_cast<double>(time.count()) / 1e6; }

// A member that is woken up is told soon even where processors are few. One that only checks at
// intervals is always late.
bool are_told_in_time(Duration half, double slowness) {
  const Duration bound = testing::scaled(kToldWithin, slowness);
  if (half <= bound) return true;
  fmt::print("half of the survivors were told within {:.1f} ms; the bound is {:.1f} ms: {} ms, "
             "times a slowness of {:.2f}\n",
             in_ms(half), in_ms(bound), in_ms(kToldWithin), slowness);
  return false;
}

int play(const Plan& plan) {
  const TempFolder folder;
  const std::string url = "file://" + folder.path();
  const double slowness = plan.checks_timing ? testing::measure_slowness() : 1;
  Board& board = testing::make_shared_board<Board>();
  std::mt19937 random(std::random_device{}());
  Findings findings;
  const int64_t begin = now();
  for (uint64_t generation = 1; generation <= plan.kills; ++generation) {
    kill_one(plan, generation, url, board, random, findings);
  }
  munmap(&board, sizeof board);
  std::vector<Duration>& told = findings.told_after;
  std::sort(told.begin(), told.end());
  const Duration half = told.empty() ? kPatience : told[told.size() / 2];
  const uint64_t left = count_left(findings.ranks);
  fmt::print(
      "{} operations of {} ranks, {} kills, {} survivors were told, half of them within {:.1f} ms "
      "and all within {:.1f} ms, {} ranks ended otherwise, {} segments left, {:.1f} s\n",
      findings.operations, kRanks, plan.kills, told.size(), in_ms(half),
      in_ms(told.empty() ? kPatience : told.back()), findings.wrong, left,
      static_cast<double>(now() - begin) / 1e9);
  if (plan.checks_timing) return are_told_in_time(half, slowness) ? 0 : 1;
  const bool busy = findings.operations >= plan.kills * kOperationsPerKill * kRanks;
  return findings.wrong == 0 && left == 0 && busy ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) {
  const bool checks_timing = argc == 4 && std::string_view(argv[3]) == "timing";
  const std::string_view backend = argc == 3 || checks_timing ? argv[1] : "";
  const std::map<std::string_view, ffdl::Backend> known = {{"shm", ffdl::Backend::kShm},
                                                           {"tcp", ffdl::Backend::kTcp},
                                                           {"tls", ffdl::Backend::kTcp},
                                                           {"gloo", ffdl::Backend::kGloo}};
  if (!known.contains(backend)) {
    fmt::print(stderr, "usage: comm_kill_test shm|tcp|tls|gloo KILLS [timing]\n");
    return 2;
  }
  return ffdl::play({.backend = known.at(backend),
                     .tls = backend == "tls",
                     .kills = std::stoull(argv[2]),
                     .checks_timing = checks_timing});
}
