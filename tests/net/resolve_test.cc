#include "net/resolve.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>

#include "net/listener.h"
#include "net/loop.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::net {
namespace {

using asio::ip::tcp;

Endpoints endpoints(std::initializer_list<const char*> numbers) {
  Endpoints made;
  for (const char* number : numbers) made.emplace_back(asio::ip::make_address(number), 7);
  return made;
}

struct Found {
  asio::error_code error;
  Endpoints endpoints;
};

// Returns the addresses found without blocking, which must equal those found by blocking.
Found find(const Address& address) {
  const auto loop = Loop::start("resolve");
  EXPECT_OK(loop);
  std::promise<Found> found;
  resolve_async((*loop)->context(), address,
                [&](const asio::error_code& error, const Endpoints& endpoints) {
                  found.set_value({error, endpoints});
                });
  Found result = found.get_future().get();
  asio::io_context context;
  asio::error_code error;
  EXPECT_EQ(resolve(context, address, error), result.endpoints);
  EXPECT_EQ(!error, !result.error);
  return result;
}

TEST(Resolve, ANumberStandsForItselfAndAnUnknownNameForNothing) {
  EXPECT_EQ(find({"10.1.2.3", 7}).endpoints, endpoints({"10.1.2.3"}));
  EXPECT_EQ(find({"::1", 7}).endpoints, endpoints({"::1"}));
  const Found local = find({"localhost", 7});
  EXPECT_FALSE(local.error);
  EXPECT_FALSE(local.endpoints.empty());
  const Found none = find({"no such host", 7});
  EXPECT_TRUE(none.error);
  EXPECT_TRUE(none.endpoints.empty());
}

TEST(Resolve, AServerListensOnLoopbackOnlyWhereThatWasAskedFor) {
  const Endpoints both = endpoints({"127.0.1.1", "10.1.2.3", "::1"});
  EXPECT_EQ(to_listen_on({"node7", 7}, both), endpoints({"10.1.2.3"}));
  EXPECT_TRUE(to_listen_on({"node7", 7}, endpoints({"127.0.1.1", "::1"})).empty());
  EXPECT_EQ(to_listen_on({"localhost", 7}, both), both);
  EXPECT_EQ(to_listen_on({"127.0.1.1", 7}, endpoints({"127.0.1.1"})), endpoints({"127.0.1.1"}));
}

constexpr int kNotPermitted = 77;

int outcome_of(const std::function<int()>& in_a_child) {
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(in_a_child());
  return testing::exit_code(child);
}

// Replaces a file of the machine, for this process alone.
bool replace(const char* file, const std::string& by) {
  return mount(by.c_str(), file, nullptr, MS_BIND, nullptr) == 0;
}
bool has_own_files() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Uses a hosts file of its own. Exits with the number of the first error.
int resolve_own_names(const std::string& hosts) {
  if (!has_own_files() || !replace("/etc/hosts", hosts)) return kNotPermitted;
  if (find({"several.test", 7}).endpoints != endpoints({"127.0.0.2", "127.0.0.3"})) return 1;
  auto loop = Loop::start("listen");
  if (!loop.ok()) return 2;
  const auto own = Listener::open(**loop, {"own.test", 0});
  if (own.ok() || own.status().code() != StatusCode::kInvalidArgument) return 3;
  if (own.status().message().find("resolves only to 127.0.1.1") == std::string::npos) return 4;
  if (!Listener::open(**loop, {"127.0.1.1", 0}).ok()) return 5;
  return 0;
}

// Models a host whose own name resolves to 127.0.1.1.
TEST(Resolve, AnOwnNameThatStandsForLoopbackIsRefusedAndAllOfANameAreFound) {
  const TempFolder folder;
  const std::string hosts = folder.path() + "/hosts";
  std::ofstream(hosts) << "127.0.0.1 localhost\n127.0.1.1 own.test\n"
                          "127.0.0.2 several.test\n127.0.0.3 several.test\n";
  const int outcome = outcome_of([&] { return resolve_own_names(hosts); });
  if (outcome == kNotPermitted) GTEST_SKIP() << "a mount namespace needs root";
  EXPECT_EQ(outcome, 0);
}

// A name server that knows no name. It answers when the test wants it.
class SilentNameServer {
 public:
  static constexpr const char* kAddress = "127.0.0.9";

  // Returns false if the port is taken, or belongs to root.
  bool start() {
    asio::error_code error;
    socket_.open(asio::ip::udp::v4(), error);
    if (!error) socket_.bind({asio::ip::make_address(kAddress), 53}, error);
    return !error;
  }
  // Waits for a question for so long at most.
  bool is_asked_within(std::chrono::milliseconds time) {
    pollfd waiting{socket_.native_handle(), POLLIN, 0};
    return poll(&waiting, 1, static_cast<int>(time.count())) == 1;
  }
  // Answers a question: there is no such name (RFC 1035, section 4.1.1).
  void answer() {
    const size_t length = socket_.receive_from(asio::buffer(message_), asking_);
    message_[2] |= 0x80;
    message_[3] = 3;
    socket_.send_to(asio::buffer(message_, length), asking_);
  }

 private:
  asio::io_context context_;
  asio::ip::udp::socket socket_{context_};
  asio::ip::udp::endpoint asking_;
  std::array<uint8_t, 512> message_{};
};

// Exits with the number of the first error.
int resolve_while_the_loop_works(const TempFolder& folder) {
  SilentNameServer server;
  if (!has_own_files() || !replace("/etc/resolv.conf", folder.file("resolv.conf")) ||
      !replace("/etc/nsswitch.conf", folder.file("nsswitch.conf")) || !server.start()) {
    return kNotPermitted;
  }
  auto loop = Loop::start("slow");
  if (!loop.ok()) return 1;
  std::promise<asio::error_code> resolved;
  auto found = resolved.get_future();
  resolve_async(
      (*loop)->context(), {"slow.test", 7},
      [&](const asio::error_code& error, const Endpoints& /*none*/) { resolved.set_value(error); });
  if (!server.is_asked_within(std::chrono::seconds(60))) return 2;
  std::promise<void> worked;
  (*loop)->post([&] { worked.set_value(); });
  worked.get_future().get();
  if (found.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return 3;
  // It is also asked for IPv6, and with the machine's own domain.
  while (found.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (server.is_asked_within(std::chrono::milliseconds(1))) server.answer();
  }
  return found.get() == asio::error::host_not_found ? 0 : 4;
}

TEST(Resolve, ASlowNameServerHoldsUpNothingElseOnTheLoop) {
  const TempFolder folder;
  std::ofstream(folder.file("resolv.conf"))
      << "nameserver " << SilentNameServer::kAddress << "\noptions timeout:30 attempts:1\n";
  std::ofstream(folder.file("nsswitch.conf")) << "hosts: files dns\n";
  const int outcome = outcome_of([&] { return resolve_while_the_loop_works(folder); });
  if (outcome == kNotPermitted) GTEST_SKIP() << "a mount namespace and port 53 need root";
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace ffdl::net
