#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <thread>

#include "benchmarks/rescale/members.h"
#include "benchmarks/rescale/rows.h"
#include "ffdl/membership.h"

namespace ffdl::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMembers = 4;
constexpr const char* kSeen =
    "until the last of the others has read the new world that they have agreed on, as it forms";

// Returns the lease of the members. A smoke run gives no verdict, and its lease suits a busy
// machine.
Duration lease_of(const Suite& suite) {
  return suite.options().smoke ? Duration(std::chrono::seconds(5)) : MembershipOptions().lease;
}

double milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Waits a random part of a heartbeat, so that events come at any time in it.
void let_some_time_pass() {
  static std::mt19937 random(1);
  std::this_thread::sleep_for(std::chrono::microseconds(50'000 + random() % 75'000));
}

// --- one event each
// --------------------------------------------------------------------------------

Result<double> end_of(Members& members, int victim, int signal) {
  FFDL_RETURN_IF_ERROR(members.expect_end_of(victim));
  let_some_time_pass();
  const Time begin = Clock::now();
  kill(members.member(victim).pid(), signal);
  FFDL_ASSIGN_OR_RETURN(const Time seen, members.end_seen(victim));
  FFDL_RETURN_IF_ERROR(members.replace(victim));
  return milliseconds(seen - begin);
}

// The world must be the same afterwards, but in a smoke run, where a busy machine may change it.
Result<double> death_of_server(const Suite& suite) {
  FFDL_ASSIGN_OR_RETURN(const auto members, Members::start(kMembers, lease_of(suite)));
  FFDL_ASSIGN_OR_RETURN(const uint64_t before, members->generation());
  let_some_time_pass();
  const Time begin = Clock::now();
  members->server().kill_now();
  FFDL_ASSIGN_OR_RETURN(const Time last, members->put_by_all());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  FFDL_ASSIGN_OR_RETURN(const uint64_t after, members->generation());
  if (after == before) return milliseconds(last - begin);
  const std::string change = fmt::format("kill the server: generation {} became {}", before, after);
  if (!suite.options().smoke) return Status(StatusCode::kInternal, change);
  fmt::print(stderr, "{}\n", change);
  return milliseconds(last - begin);
}

Result<double> worlds_of_a_second(Members& members) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t before, members.generation());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  FFDL_ASSIGN_OR_RETURN(const uint64_t after, members.generation());
  return static_cast<double>(after - before);
}

// --- the limit
// -------------------------------------------------------------------------------------

// Opens a socket that listens on a free port of this host.
Result<int> listen_somewhere(uint16_t& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, any, size) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, any, &size) != 0) {
    return Status(StatusCode::kUnavailable, "listen on a free port: there is none");
  }
  port = ntohs(address.sin_port);
  return listener;
}

// Returns the seconds from SIGKILL of a process until its connection ends.
Result<double> kill_until_connection_ends() {
  uint16_t port = 0;
  FFDL_ASSIGN_OR_RETURN(const int listener, listen_somewhere(port));
  FFDL_ASSIGN_OR_RETURN(auto peer, Resident::start_self({"--role", "peer", std::to_string(port)}));
  FFDL_RETURN_IF_ERROR(peer->ask("").status());
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const double seconds = seconds_of([&] {
    peer->kill_now();
    char byte = 0;
    static_cast<void>(read(connection, &byte, 1));
  });
  close(connection);
  close(listener);
  peer->reap();
  return seconds;
}

// --- rows
// ------------------------------------------------------------------------------------------

struct Event {
  const char* name;
  std::function<Result<double>(Members&)> happen;
  int samples;
  double target_ms;
  std::string note;
};

void event_row(Suite& suite, const Event& event) {
  const std::string name = fmt::format("rescale/{}", event.name);
  if (!suite.wants(name)) return;
  const auto members = Members::start(kMembers, lease_of(suite));
  if (!members.ok()) return suite.failed(name, members.status());
  suite.measure(ValueSpec{.name = name,
                          .unit = "ms",
                          .sample = [&] { return event.happen(**members); },
                          .samples = event.samples,
                          .target = Target{event.target_ms, true},
                          .note = event.note});
}

void server_row(Suite& suite) {
  const std::string name = "rescale/store_kill_ms";
  if (!suite.wants(name)) return;
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&suite] { return death_of_server(suite); },
      .samples = 30,
      .target = Target{500, true},
      .note = "SIGKILL of the process that serves the store until a member has taken over and a "
              "put of each of the 4 members has returned; the world stays as it was"});
}

void quiet_row(Suite& suite) {
  const std::string name = "rescale/no_event_worlds";
  if (!suite.wants(name)) return;
  const auto members = Members::start(kMembers, lease_of(suite));
  if (!members.ok()) return suite.failed(name, members.status());
  suite.measure(ValueSpec{.name = name,
                          .unit = "",
                          .sample = [&] { return worlds_of_a_second(**members); },
                          .samples = 15,
                          .target = Target{0, true},
                          .note = "new worlds in a second in which nothing happens"});
}

}  // namespace

void death_rows(Suite& suite) {
  suite.self_check(PairSpec{
      .name = "rescale",
      .unit = "ms",
      .figure = [](double seconds) { return 1e3 * seconds; },
      .limit = kill_until_connection_ends,
      .limit_is = "SIGKILL of a process until a plain read of its loopback connection returns"});
  quiet_row(suite);
  event_row(suite, {"detect_kill_ms",
                    [](Members& members) -> Result<double> {
                      FFDL_ASSIGN_OR_RETURN(const int leader, members.leader());
                      return end_of(members, (leader + 1) % kMembers, SIGKILL);
                    },
                    50, 10, fmt::format("SIGKILL of one of 4 members, not the leader, {}", kSeen)});
  event_row(suite, {"leader_kill_ms",
                    [](Members& members) -> Result<double> {
                      FFDL_ASSIGN_OR_RETURN(const int leader, members.leader());
                      return end_of(members, leader, SIGKILL);
                    },
                    50, 50, fmt::format("SIGKILL of the leader of 4 members {}", kSeen)});
  event_row(suite, {"hang_detect_ms",
                    [next = 0](Members& members) mutable {
                      return end_of(members, next++ % kMembers, SIGSTOP);
                    },
                    30, 350,
                    fmt::format("SIGSTOP of one of 4 members, each in turn, the leader too, {}; "
                                "lease 300 ms, heartbeat 75 ms",
                                kSeen)});
  server_row(suite);
}

}  // namespace ffdl::bench
