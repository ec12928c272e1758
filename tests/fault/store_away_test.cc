#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "benchmarks/harness/two_hosts.h"
#include "ffdl/log.h"
#include "ffdl/membership.h"
#include "ffdl/store.h"
#include "support/etcd_server.h"
#include "support/fork_child.h"
#include "support/server_of.h"
#include "support/shared_board.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

// Members of a job are processes. Their store dies or is cut off. They agree again by themselves,
// and each reports once that the store is back.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMembersMax = 8;
constexpr Duration kPatience = 60s;

// Sets the level before any log line: the single report has the level of information.
[[maybe_unused]] const int kLevelIsSet = setenv("FFDL_LOG", "info", 1);

// The report of a member to the test.
struct Told {
  std::atomic<uint64_t> generation;  // generation of the active world that it is in
  std::atomic<uint64_t> size;
  std::atomic<uint64_t> back;  // number of reports that the store is back
};
struct Board {
  std::array<Told, kMembersMax> told;
  std::atomic<uint64_t> port;
  std::atomic<bool> over;
};

Time now() { return std::chrono::steady_clock::now(); }

int take_part(size_t index, const std::string& url, const StoreOptions& options, Board& board) {
  Told& told = board.told[index];
  set_log_sink([&](LogLevel, std::string_view line) {
    if (line.starts_with("store '") && line.ends_with(" again")) told.back.fetch_add(1);
  });
  auto store = open_store(url, system_runtime(), options);
  if (!store.ok()) return 2;
  const std::string id = "member" + std::to_string(index);
  MembershipOptions patient;
  patient.lease = 5s;  // a busy machine keeps it alive
  auto joined = Membership::join(**store, system_runtime(), {id, 0, id}, patient);
  if (!joined.ok()) return 3;
  uint64_t generation = 0;
  while (true) {
    const auto world = (*joined)->wait_world_after(generation, deadline_in(1s));
    if (!world.ok() && world.status().code() != StatusCode::kTimeout) {
      std::fprintf(stderr, "%s: %s\n", id.c_str(), world.status().to_string().c_str());
      return 4;
    }
    if (!world.ok()) continue;
    generation = world->generation;
    if (world->rank < 0 || !(*joined)->activate(generation, deadline_in(kPatience)).ok()) continue;
    if (!(*joined)->wait_active(generation, deadline_in(kPatience)).ok()) continue;
    told.size = world->members.size();
    told.generation = generation;
  }
}

pid_t start_member(size_t index, const std::string& url, Board& board,
                   const StoreOptions& options = {.operation_timeout = kPatience}) {
  const pid_t child = testing::fork_child();
  if (child != 0) return child;
  _exit(take_part(index, url, options, board));
}

bool all_agree(const Board& board, const std::vector<size_t>& members, size_t size) {
  const uint64_t generation = board.told[members.front()].generation;
  return std::all_of(members.begin(), members.end(), [&](size_t member) {
    return board.told[member].generation == generation && board.told[member].size == size;
  });
}

// Waits until exactly these members are one active world that each of them knows.
bool will_agree(const Board& board, const std::vector<size_t>& members, size_t size) {
  const Time patience = now() + kPatience;
  while (!all_agree(board, members, size)) {
    if (now() > patience) {
      for (const size_t member : members) {
        std::fprintf(stderr, "member %zu: generation %lu of %lu members\n", member,
                     board.told[member].generation.load(), board.told[member].size.load());
      }
      return false;
    }
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

bool will_agree(const Board& board, const std::vector<size_t>& members) {
  return will_agree(board, members, members.size());
}

// Waits until the member has reported so many times that the store is back.
bool will_say_so(const Board& board, size_t member, uint64_t times) {
  return comes_true([&] { return board.told[member].back >= times; });
}

double ms_since(Time begin) {
  return std::chrono::duration<double, std::milli>(now() - begin).count();
}

class StoreAway : public ::testing::Test {
 protected:
  ~StoreAway() override {
    for (const pid_t process : processes_) kill(process, SIGKILL);
    for (const pid_t process : processes_) waitpid(process, nullptr, 0);
    munmap(&board_, sizeof board_);
  }
  void start(size_t members, const std::string& url) {
    for (size_t i = 0; i < members; ++i) {
      processes_.push_back(start_member(i, url, board_));
      alive_.push_back(i);
    }
  }
  void kill_member(pid_t process) {
    const auto found = std::find(processes_.begin(), processes_.end(), process);
    ASSERT_NE(found, processes_.end()) << process << " is no member";
    std::erase(alive_, static_cast<size_t>(found - processes_.begin()));
    kill(process, SIGKILL);
  }
  // Each member reports each return of the store. A busy machine may lose and find it once more.
  // Were each attempt reported, there would be many.
  void expect_each_said_so(uint64_t times) {
    for (const size_t member : alive_) {
      EXPECT_TRUE(will_say_so(board_, member, times)) << member;
      EXPECT_LE(board_.told[member].back, 2 * times) << member;
    }
  }

  Board& board_ = testing::make_shared_board<Board>();
  std::vector<pid_t> processes_;
  std::vector<size_t> alive_;
};

TEST_F(StoreAway, MembersAgreeAgainAfterEtcdWasKilled) {
  if (const auto why = testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
  testing::EtcdServer server(std::vector<std::string>{});  // with etcd's own time-outs
  start(4, server.url());
  ASSERT_TRUE(will_agree(board_, alive_));
  const uint64_t before = board_.told[0].generation;
  server.kill();
  std::this_thread::sleep_for(1s);
  server.start();
  // No member is lost by it: the same world continues until a member dies.
  const Time patience = now() + kPatience;
  while (!std::all_of(alive_.begin(), alive_.end(),
                      [&](size_t member) { return board_.told[member].back > 0; })) {
    ASSERT_LT(now(), patience);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(board_.told[0].generation, before);
  kill_member(processes_[0]);
  const Time killed = now();
  ASSERT_TRUE(will_agree(board_, alive_));
  std::printf("etcd alone: a death was answered after %.0f ms\n", ms_since(killed));
  expect_each_said_so(1);
}

// Kills each of the three servers in turn, the leader included.
TEST_F(StoreAway, MembersAgreeWithTwoOfThreeEtcdServers) {
  if (const auto why = testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
  const auto servers = testing::EtcdServer::start_cluster(3);
  start(4,
        fmt::format("{},{},{}", servers[0]->url(), servers[1]->address(), servers[2]->address()));
  ASSERT_TRUE(will_agree(board_, alive_));
  for (size_t victim = 0; victim < servers.size(); ++victim) {
    servers[victim]->kill();
    kill_member(processes_[victim]);
    const Time killed = now();
    ASSERT_TRUE(will_agree(board_, alive_)) << "without server " << victim;
    std::printf("one of three etcd servers and a member killed: the others agreed after %.0f ms\n",
                ms_since(killed));
    servers[victim]->start();
  }
}

TEST_F(StoreAway, MembersAgreeAgainAfterTheServerAmongThemWasKilled) {
  const TempFolder folder;
  start(8, "tcp://" + folder.path());
  ASSERT_TRUE(will_agree(board_, alive_));
  for (uint64_t kills = 1; kills <= 3; ++kills) {
    kill_member(server_of(folder.path()));
    const Time killed = now();
    ASSERT_TRUE(will_agree(board_, alive_));
    std::printf("the store's server killed: its %zu survivors agreed after %.0f ms\n",
                alive_.size(), ms_since(killed));
    expect_each_said_so(kills);
  }
}

// The first host has a server and two members, the second two members. The cable of the second is
// cut.
constexpr Duration kCut = 10s;
constexpr size_t kMembersPerHost = 2;

int watch_over_the_cut(Board& board) {
  const std::vector<size_t> all = {0, 1, 2, 3};
  const std::vector<size_t> here = {0, 1};
  if (!will_agree(board, all)) return 11;
  if (std::system("ip link set ffdl0 down") != 0) return 12;
  const Time cut = now();
  if (!will_agree(board, here)) return 13;
  std::printf("cut off: the others agreed after %.0f ms\n", ms_since(cut));
  std::this_thread::sleep_until(cut + kCut);
  if (!all_agree(board, here, here.size())) return 14;
  if (std::system("ip link set ffdl0 up") != 0) return 15;
  const Time joined = now();
  if (!will_agree(board, all)) return 16;
  std::printf("joined again: all agreed after %.0f ms\n", ms_since(joined));
  std::fflush(stdout);
  for (const size_t member : all) {
    const uint64_t least = member < kMembersPerHost ? 0 : 1;
    if (!will_say_so(board, member, least) || board.told[member].back > 2 * least) {
      return 20 + static_cast<int>(member);
    }
  }
  return 0;
}

int play_host(int host, const std::string& address, const std::string& folder, Board& board) {
  const StoreOptions options{.operation_timeout = kPatience, .secret = "of the job"};
  std::vector<pid_t> children;
  if (host == 0) {
    children.push_back(testing::fork_child());
    if (children.back() == 0) {
      const auto server = StoreServer::start(
          {.folder = folder, .address = address + ":0", .secret = options.secret});
      if (!server.ok()) _exit(1);
      const std::string url = (*server)->url();
      board.port = std::stoul(url.substr(url.rfind(':') + 1));
      pause();
    }
  }
  const Time patience = now() + kPatience;
  while (board.port == 0 && now() < patience) std::this_thread::sleep_for(1ms);
  const std::string url = "tcp://10.77.0.1:" + std::to_string(board.port.load());
  for (size_t i = 0; i < kMembersPerHost; ++i) {
    const size_t index = static_cast<size_t>(host) * kMembersPerHost + i;
    children.push_back(start_member(index, url, board, options));
  }
  int outcome = 0;
  if (host == 0) {
    outcome = watch_over_the_cut(board);
    board.over = true;
  }
  while (!board.over && now() < patience + kPatience) std::this_thread::sleep_for(1ms);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return outcome;
}

TEST(StoreAwaySlow, MembersAgreeAgainAfterTheNetworkWasCut) {
  Board& board = testing::make_shared_board<Board>();
  const TempFolder folder;
  const auto codes = bench::run_two_hosts([&](int host, const std::string& address) {
    return play_host(host, address, folder.path(), board);
  });
  if (!codes) GTEST_SKIP() << "network namespaces need root, and 'ip' of iproute2";
  EXPECT_EQ(*codes, (std::array<int, 2>{0, 0}));
  munmap(&board, sizeof board);
}

}  // namespace
}  // namespace ffdl
