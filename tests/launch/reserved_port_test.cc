#include "launch/reserved_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <fstream>
#include <vector>

#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/private_shm.h"
#include "support/status_matchers.h"

namespace ffdl::launch {
namespace {

constexpr uint16_t kFirst = 40'000;  // the kernel chooses among these
constexpr uint16_t kLast = 40'003;
constexpr uint16_t kElsewhere = 39'000;

// Gives this process, a child of the test, a network of its own with few ports. Returns false if
// that is not allowed.
bool enter_small_network() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  const base::OwnFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback = {.ifr_ifrn = {.ifrn_name = "lo"}, .ifr_ifru = {.ifru_flags = IFF_UP}};
  if (ioctl(socket.get(), SIOCSIFFLAGS, &loopback) != 0) return false;
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << kFirst << ' ' << kLast << std::flush;
  return range.good();
}

sockaddr_in at(uint16_t port, in_addr_t host = INADDR_LOOPBACK) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(host);
  return address;
}

base::OwnFd bind_to(const sockaddr_in& address, bool reuse) {
  base::OwnFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int value = reuse ? 1 : 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &value, sizeof value);
  const bool is_bound =
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return is_bound ? std::move(socket) : base::OwnFd();
}

bool connects_to(int socket, uint16_t port) {
  const sockaddr_in server = at(port);
  return connect(socket, reinterpret_cast<const sockaddr*>(&server), sizeof server) == 0;
}

// Expects the statements of `body` to hold in a small network.
template <class Body>
void in_small_network(Body&& body) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (!enter_small_network()) _exit(testing::kNotAllowed);
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  const int code = testing::exit_code(child);
  if (code == testing::kNotAllowed) {
    GTEST_SKIP() << "a network of its own needs root and a /proc/sys to write to";
  }
  EXPECT_EQ(code, 0);
}

TEST(ReservedPort, IsChosenForNoOtherServer) {
  for (const bool reuse : {false, true}) {
    in_small_network([&] {
      ASSERT_OK_AND_ASSIGN(const ReservedPort port, ReservedPort::at("127.0.0.1", "none"));
      std::vector<base::OwnFd> others;
      for (int free = kLast - kFirst; free > 0; --free) {
        others.push_back(bind_to(at(0), reuse));
        EXPECT_GE(others.back().get(), 0) << free;
      }
      EXPECT_LT(bind_to(at(0), reuse).get(), 0);  // only the reserved one is left
      EXPECT_FAILS(ReservedPort::at("127.0.0.1", "wait"), StatusCode::kUnavailable,
                   "find a free port at '127.0.0.1': Address already in use; wait");
    });
  }
}

TEST(ReservedPort, IsChosenForNoConnection) {
  in_small_network([] {
    ASSERT_OK_AND_ASSIGN(const ReservedPort port, ReservedPort::at("127.0.0.1", "none"));
    const base::OwnFd server = bind_to(at(kElsewhere), true);
    ASSERT_EQ(listen(server.get(), 10), 0);
    std::vector<base::OwnFd> connections;
    int connected = 0;
    for (int i = kFirst; i <= kLast; ++i) {
      connections.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      connected += connects_to(connections.back().get(), kElsewhere) ? 1 : 0;
    }
    EXPECT_EQ(connected, kLast - kFirst);
  });
}

// PyTorch listens so: on IPv6, and on IPv4 with the same socket.
TEST(ReservedPort, AServerOfBothFamiliesListensOnIt) {
  in_small_network([] {
    ASSERT_OK_AND_ASSIGN(const ReservedPort reserved, ReservedPort::at("0.0.0.0", "none"));
    const base::OwnFd server(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (server.get() < 0) return;  // no IPv6 here
    const int reuse = 1;
    setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    const int no = 0;
    setsockopt(server.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(reserved.address().port);
    ASSERT_EQ(
        bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(server.get(), 10), 0);
    const base::OwnFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_TRUE(connects_to(client.get(), reserved.address().port));
  });
}

TEST(ReservedPort, AServerListensOnItAgainAndAgain) {
  for (const in_addr_t host : {INADDR_LOOPBACK, INADDR_ANY}) {
    in_small_network([&] {
      ASSERT_OK_AND_ASSIGN(
          const ReservedPort reserved,
          ReservedPort::at(host == INADDR_ANY ? "0.0.0.0" : "127.0.0.1", "none"));
      const uint16_t port = reserved.address().port;
      EXPECT_GE(port, kFirst);
      EXPECT_LE(port, kLast);
      for (int life = 0; life < 2; ++life) {
        const base::OwnFd server = bind_to(at(port, host), true);
        ASSERT_EQ(listen(server.get(), 10), 0);
        const base::OwnFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_TRUE(connects_to(client.get(), port));
      }
    });
  }
}

TEST(ReservedPort, IsFreeAfterItsReservation) {
  in_small_network([] {
    std::vector<base::OwnFd> others;
    for (int i = kFirst; i < kLast; ++i) others.push_back(bind_to(at(0), false));
    for (int i = 0; i < 3; ++i) EXPECT_OK(ReservedPort::at("127.0.0.1", "none"));
  });
}

TEST(ReservedPort, NeedsAnAddressOfThisHost) {
  EXPECT_FAILS(ReservedPort::at("localhost", "none"), StatusCode::kInvalidArgument,
               "find a free port at 'localhost': it is not an IP address");
  EXPECT_FAILS(ReservedPort::at("192.0.2.1", "give another --interface"), StatusCode::kUnavailable,
               "Cannot assign requested address; give another --interface");
}

}  // namespace
}  // namespace ffdl::launch
