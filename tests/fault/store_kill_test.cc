#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "ffdl/store.h"
#include "support/fork_child.h"
#include "support/server_of.h"
#include "support/shared_board.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"

// Processes share a store that one of them serves. That one is killed again and again, in the
// middle of all puts. No acknowledged put may be lost, repeated or undone, and the others continue.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr size_t kWorkers = 4;
constexpr int kKills = 25;
constexpr Duration kPatience = 60s;  // limit of a call, and of the parent for the next sign of life

// The acknowledged puts of a worker, for the check after its death.
struct Told {
  std::atomic<uint64_t> puts;      // puts of its key; equal to the value of the last one
  std::atomic<uint64_t> revision;  // revision of the last put
};
struct Board {
  std::array<Told, kWorkers> told;
};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

enum Outcome { kNeverEnds = 0, kNotOpened, kLost, kNotPut, kRevisionWentBack };

// Puts 1, 2, 3, ... under its key, each only after the one before. No other process writes the key,
// so a conflict is a put that was repeated or lost.
Outcome put_forever(size_t worker, const std::string& url, Board& board) {
  auto store = open_store(url, system_runtime(), {.operation_timeout = kPatience});
  if (!store.ok()) return kNotOpened;
  const std::string key = "worker/" + std::to_string(worker);
  Told& told = board.told[worker];
  uint64_t puts = 0;
  Revision revision = 0;
  const auto entry = (*store)->get(key);
  if (entry.ok()) {
    puts = std::stoull(entry->value);
    revision = entry->revision;
  } else if (entry.status().code() != StatusCode::kNotFound) {
    return kNotOpened;
  }
  // A kill may hit after a put and before its record.
  if (puts != told.puts.load() && puts != told.puts.load() + 1) return kLost;
  if (revision < told.revision.load()) return kLost;
  while (true) {
    const auto put = (*store)->compare_and_put(key, revision, std::to_string(puts + 1));
    if (!put.ok()) {
      std::fprintf(stderr, "worker %zu: %s\n", worker, put.status().to_string().c_str());
      return kNotPut;
    }
    if (*put <= revision) return kRevisionWentBack;
    revision = *put;
    told.revision.store(revision);
    told.puts.store(++puts);
  }
}

pid_t start(size_t worker, const std::string& url, Board& board) {
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(put_forever(worker, url, board));
  return child;
}

// Waits until another put of every worker in `alive` is acknowledged.
bool all_go_on(const Board& board, const std::array<uint64_t, kWorkers>& before,
               const std::vector<size_t>& alive) {
  const int64_t patience = now() + kPatience.count();
  for (const size_t worker : alive) {
    while (board.told[worker].puts.load() <= before[worker]) {
      if (now() > patience) return false;
      std::this_thread::sleep_for(200us);
    }
  }
  return true;
}

std::array<uint64_t, kWorkers> puts_of(const Board& board) {
  std::array<uint64_t, kWorkers> puts{};
  for (size_t worker = 0; worker < kWorkers; ++worker) puts[worker] = board.told[worker].puts;
  return puts;
}

void expect_killed(pid_t child) {
  int outcome = 0;
  waitpid(child, &outcome, 0);
  EXPECT_TRUE(WIFSIGNALED(outcome)) << "a worker ended by itself: " << WEXITSTATUS(outcome);
}

TEST(StoreKill, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  const TempFolder folder;
  const std::string url = "tcp://" + folder.path();
  Board& board = testing::make_shared_board<Board>();
  std::mt19937 random(std::random_device{}());
  std::vector<pid_t> workers;
  std::vector<size_t> everybody;
  for (size_t worker = 0; worker < kWorkers; ++worker) {
    workers.push_back(start(worker, url, board));
    everybody.push_back(worker);
  }
  ASSERT_TRUE(all_go_on(board, {}, everybody));
  std::vector<int64_t> took;
  for (int kills = 0; kills < kKills; ++kills) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    // A read of /proc/locks can miss a lock while others change.
    pid_t server = 0;
    auto found = workers.end();
    ASSERT_TRUE(comes_true([&] {
      server = server_of(folder.path());
      found = std::find(workers.begin(), workers.end(), server);
      return found != workers.end();
    })) << "the lock is held by process "
        << server;
    const auto victim = static_cast<size_t>(found - workers.begin());
    kill(server, SIGKILL);
    const int64_t killed_at = now();
    expect_killed(server);
    auto before = puts_of(board);
    std::vector<size_t> others = everybody;
    std::erase(others, victim);
    // A put under way may have been answered before the kill; the second one was not.
    for (uint64_t& puts : before) ++puts;
    ASSERT_TRUE(all_go_on(board, before, others)) << "after kill " << kills;
    took.push_back(now() - killed_at);
    workers[victim] = start(victim, url, board);
    ASSERT_TRUE(all_go_on(board, puts_of(board), everybody)) << "after kill " << kills;
  }
  for (const pid_t worker : workers) kill(worker, SIGKILL);
  for (const pid_t worker : workers) expect_killed(worker);
  ASSERT_OK_AND_ASSIGN(auto store, open_store(url, system_runtime()));
  for (size_t worker = 0; worker < kWorkers; ++worker) {
    ASSERT_OK_AND_ASSIGN(const Entry entry, store->get("worker/" + std::to_string(worker)));
    EXPECT_GE(entry.revision, board.told[worker].revision.load());
    EXPECT_GE(std::stoull(entry.value), board.told[worker].puts.load());
    EXPECT_LE(std::stoull(entry.value), board.told[worker].puts.load() + 1);
  }
  std::sort(took.begin(), took.end());
  std::printf("%d kills: all others had put again after %.1f ms (median), %.1f ms (longest)\n",
              kKills, static_cast<double>(took[took.size() / 2]) / 1e6,
              static_cast<double>(took.back()) / 1e6);
  munmap(&board, sizeof board);
}

// The kernel closes the connection of a killed member. Its lease ends then, long before its term.
TEST(StoreKill, AKilledMemberIsSeenByItsConnection) {
  const TempFolder folder;
  const std::string url = "tcp://" + folder.path();
  ASSERT_OK_AND_ASSIGN(auto store, open_store(url, system_runtime()));
  std::vector<int64_t> took;
  for (int kills = 0; kills < 20; ++kills) {
    ASSERT_OK_AND_ASSIGN(const Revision start, store->wait_change("", 0, Time::min()));
    const pid_t child = testing::fork_child();
    if (child == 0) {
      auto own = open_store(url, system_runtime());
      if (!own.ok()) _exit(1);
      const auto lease = (*own)->grant_lease(1h);
      if (!lease.ok() || !(*own)->put("member", "here", *lease).ok()) _exit(1);
      pause();
    }
    const auto joined = store->wait_change("member", start, deadline_in(kPatience));
    kill(child, SIGKILL);
    const int64_t killed_at = now();
    ASSERT_OK(joined);
    EXPECT_OK(store->wait_change("member", *joined, deadline_in(kPatience)));
    took.push_back(now() - killed_at);
    EXPECT_FAILS(store->get("member"), StatusCode::kNotFound, "'member'");
    expect_killed(child);
  }
  std::sort(took.begin(), took.end());
  std::printf("a death was seen after %.2f ms (median), %.2f ms (longest)\n",
              static_cast<double>(took[took.size() / 2]) / 1e6,
              static_cast<double>(took.back()) / 1e6);
}

// The term has passed when the server continues. The call that keeps the lease alive has been
// waiting.
TEST(StoreKill, AStoppedServerEndsNoLeaseThatWasKeptAliveMeanwhile) {
  constexpr Duration kTerm = 2s;
  const TempFolder folder;
  const std::string url = "tcp://" + folder.path();
  const pid_t server = testing::fork_child();
  if (server == 0) {
    auto store = open_store(url, system_runtime());
    if (!store.ok() || !(*store)->put("served", "1").ok()) _exit(1);
    pause();
  }
  const Time patience = deadline_in(kPatience);
  while (server_of(folder.path()) != server && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_OK_AND_ASSIGN(auto store,
                       open_store(url, system_runtime(), {.operation_timeout = kPatience}));
  for (int stops = 0; stops < 2;) {
    const int64_t granted_at = now();
    ASSERT_OK_AND_ASSIGN(const LeaseId lease, store->grant_lease(kTerm));
    testing::stop_process(server);
    // On a busy machine its term may have passed before the stop. That stop does not count.
    const bool is_in_time = now() - granted_at < Duration(kTerm).count();
    Status kept;
    std::thread keeper([&] { kept = store->keep_alive(lease); });
    std::this_thread::sleep_for(kTerm + 500ms);
    kill(server, SIGCONT);
    keeper.join();
    if (!is_in_time) continue;
    EXPECT_OK(kept);
    ++stops;
  }
  kill(server, SIGKILL);
  expect_killed(server);
}

}  // namespace
}  // namespace ffdl
