#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <vector>

#include "hosts/hosts.h"
#include "support/shared_board.h"

// Tests the delay, the loss and the rate of the links between hosts.
namespace ffdl::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr uint16_t kDatagramPort = 4242;
constexpr uint16_t kStreamPort = 4243;
constexpr uint64_t kStreamBytes = 8 << 20;
constexpr auto kAllHaveCome = 3000ms;  // after the last answer, on a busy machine

sockaddr_in at_port(const std::string& address, uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &made.sin_addr);
  return made;
}

const sockaddr* as_address(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

int datagram_socket() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int room = 32 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  return fd;
}

// A byte from another process, which it sends when it is ready.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  bool send() const { return write(ends_[1], "!", 1) == 1; }
  bool wait() const {
    pollfd polled = {ends_[0], POLLIN, 0};
    char byte = 0;
    return poll(&polled, 1, 10'000) == 1 && read(ends_[0], &byte, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

// Returns a socket that listens, or -1.
int listening_socket() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int again = 1;  // also after a stream to the same port
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
  const sockaddr_in any = at_port("0.0.0.0", kStreamPort);
  return bind(listener, as_address(any), sizeof any) == 0 && listen(listener, 1) == 0 ? listener
                                                                                      : -1;
}

struct Counts {
  std::atomic<int64_t> received;  // datagrams of a host's receiver
  std::atomic<int64_t> answered;  // of them, with an answer that arrived
  std::atomic<int64_t> took_ns;   // of a measured exchange
};

class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::why_no_emulator(); !why.empty()) GTEST_SKIP() << why;
  }
  ~LinkTest() override {
    hosts_.reset();
    munmap(&counts_, sizeof counts_);
  }

  void make(int count, const LinkOptions& link) {
    hosts_ = Hosts::make(count, link);
    ASSERT_NE(hosts_, nullptr);
  }

  static int exit_code_of(pid_t process) {
    int status = 0;
    if (process < 0 || waitpid(process, &status, 0) != process) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // Counts the datagrams that reach a host, and answers each with one byte.
  pid_t count_at(int host) {
    const Signal ready;
    counts_.received = 0;
    const pid_t receiver = hosts_->start(host, [&] {
      const int fd = datagram_socket();
      const sockaddr_in any = at_port("0.0.0.0", kDatagramPort);
      if (bind(fd, as_address(any), sizeof any) != 0 || !ready.send()) return 1;
      while (true) {
        char byte = 0;
        sockaddr_in from{};
        socklen_t size = sizeof from;
        if (recvfrom(fd, &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &size) != 1) return 2;
        ++counts_.received;
        sendto(fd, &byte, 1, 0, as_address(from), size);
      }
    });
    EXPECT_TRUE(ready.wait());
    return receiver;
  }

  // Sends that many datagrams to a host that counts them. Returns the number of answers until all
  // have come, or none for that time.
  int64_t answers(int from, int to, int count, std::chrono::milliseconds patience = 500ms) {
    counts_.answered = 0;
    const pid_t sender = hosts_->start(from, [&] {
      const int fd = datagram_socket();
      const sockaddr_in target = at_port(Hosts::address(to), kDatagramPort);
      const auto receive_for = [&](int milliseconds) {
        char byte = 0;
        pollfd polled = {fd, POLLIN, 0};
        while (counts_.answered < count && poll(&polled, 1, milliseconds) == 1) {
          counts_.answered += recv(fd, &byte, 1, 0);
        }
      };
      for (int i = 0; i < count; ++i) {
        sendto(fd, "?", 1, 0, as_address(target), sizeof target);
        if (i % 50 == 49) receive_for(1);
      }
      receive_for(static_cast<int>(patience.count()));
      return 0;
    });
    EXPECT_EQ(exit_code_of(sender), 0);
    return counts_.answered;
  }

  // Lets both hosts learn each other's hardware address. Returns false if no answer came.
  bool greet(int from, int to) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (answers(from, to, 1) > 0) return true;
    }
    return false;
  }

  // Returns the shortest of some round trips.
  std::chrono::nanoseconds round_trip(int from, int to) {
    const pid_t sender = hosts_->start(from, [&] {
      const int fd = datagram_socket();
      const sockaddr_in target = at_port(Hosts::address(to), kDatagramPort);
      int64_t shortest = INT64_MAX;
      for (int i = 0; i < 20; ++i) {
        const auto begin = Clock::now();
        sendto(fd, "?", 1, 0, as_address(target), sizeof target);
        char byte = 0;
        pollfd polled = {fd, POLLIN, 0};
        if (poll(&polled, 1, 1000) != 1 || recv(fd, &byte, 1, 0) != 1) continue;
        shortest = std::min<int64_t>(shortest, (Clock::now() - begin).count());
      }
      counts_.took_ns = shortest;
      return 0;
    });
    EXPECT_EQ(exit_code_of(sender), 0);
    return std::chrono::nanoseconds(counts_.took_ns);
  }

  // Returns the bits per second of the Ethernet frames of a stream from one host to another.
  double stream_rate(int from, int to) {
    const Signal listening;
    const pid_t receiver = hosts_->start(to, [&] {
      const int listener = listening_socket();
      if (listener < 0 || !listening.send()) return 1;
      const int stream = accept(listener, nullptr, nullptr);
      std::vector<char> buffer(1 << 20);
      uint64_t left = kStreamBytes;
      Clock::time_point begin;
      while (left > 0) {
        const ssize_t size = recv(stream, buffer.data(), buffer.size(), 0);
        if (size <= 0) return 2;
        // The first quarter is not timed: the connection grows to the link's rate.
        const bool was_growing = left > kStreamBytes * 3 / 4;
        left -= static_cast<uint64_t>(size);
        if (was_growing) {
          begin = Clock::now();
          counts_.received = static_cast<int64_t>(left);
        }
      }
      counts_.took_ns = (Clock::now() - begin).count();
      return 0;
    });
    EXPECT_TRUE(listening.wait());
    const pid_t sender = hosts_->start(from, [&] {
      const int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in target = at_port(Hosts::address(to), kStreamPort);
      if (connect(stream, as_address(target), sizeof target) != 0) return 1;
      const std::vector<char> bytes(kStreamBytes);
      const auto sent = send(stream, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      char end = 0;
      return sent == static_cast<ssize_t>(bytes.size()) && recv(stream, &end, 1, 0) == 0 ? 0 : 2;
    });
    EXPECT_EQ(exit_code_of(sender), 0);
    EXPECT_EQ(exit_code_of(receiver), 0);
    constexpr double kFramePerPayload = 1514.0 / 1448.0;
    return 8e9 * static_cast<double>(counts_.received) * kFramePerPayload /
           static_cast<double>(counts_.took_ns);
  }

  // Expects that rate of a stream. A busy machine may hold up an end of it; then of another stream.
  void expect_rate(double rate) {
    double measured = 0;
    for (int attempt = 0; attempt < 5 && std::abs(measured - rate) > rate / 10; ++attempt) {
      measured = stream_rate(0, 1);
    }
    EXPECT_NEAR(measured, rate, rate / 10);
  }

  Counts& counts_ = make_shared_board<Counts>();
  std::unique_ptr<Hosts> hosts_;
};

// Their bounds are of a machine that is not too busy.
using LinkTimes = LinkTest;

TEST_F(LinkTimes, EachPacketIsDelayedOnceInEachDirection) {
  make(2, {.delay = 25ms});
  count_at(1);
  const auto both = round_trip(0, 1);
  EXPECT_GE(both, 50ms);
  EXPECT_LT(both, 100ms);
  ASSERT_TRUE(hosts_->set_link(1, {}, {}));
  const auto one = round_trip(0, 1);
  EXPECT_GE(one, 25ms);
  EXPECT_LT(one, 50ms);
}

// The bounds are five standard deviations of the loss, for packets that are lost independently.
TEST_F(LinkTest, LosesItsShareInOneDirection) {
  constexpr int kSent = 4000;
  make(2, {.delay = 1ms});
  count_at(1);
  ASSERT_TRUE(greet(0, 1));
  ASSERT_TRUE(hosts_->set_link(0, {.delay = 1ms, .loss = 0.2}, {}));
  const int64_t before = counts_.received;
  const int64_t answered = answers(0, 1, kSent, kAllHaveCome);
  const int64_t received = counts_.received - before;
  EXPECT_NEAR(static_cast<double>(received), 0.8 * kSent, 5 * 25.3);
  EXPECT_EQ(answered, received) << "the other direction loses nothing";
}

TEST_F(LinkTest, LosesTwiceWhereBothDirectionsLose) {
  constexpr int kSent = 4000;
  make(2, {.delay = 1ms});
  count_at(1);
  ASSERT_TRUE(greet(0, 1));
  for (int host = 0; host < 2; ++host) ASSERT_TRUE(hosts_->set_link(host, {.loss = 0.2}, {}));
  const int64_t answered = answers(0, 1, kSent, kAllHaveCome);
  EXPECT_NEAR(static_cast<double>(answered), 0.64 * kSent, 5 * 30.4);
}

TEST_F(LinkTimes, EmulatedRateLimitsAStream) {
  make(2, {.delay = 1ms, .rate = 50e6});
  expect_rate(50e6);
}

TEST_F(LinkTimes, KernelsRateLimitsAStream) {
  make(2, {.rate = 50e6});
  expect_rate(50e6);
}

TEST_F(LinkTest, BridgeHasNoDelay) {
  make(2, {});
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(hosts_->set_link(0, {.delay = 1ms}, {}));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("no delay and no loss"),
            std::string::npos);
}

// Cuts, partitions and deaths work alike for both kinds of links.
class EitherLinkTest : public LinkTest, public ::testing::WithParamInterface<bool> {
 protected:
  void make_either(int count) {
    make(count, GetParam() ? LinkOptions{.delay = 1ms} : LinkOptions{});
  }
};
INSTANTIATE_TEST_SUITE_P(Links, EitherLinkTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Emulated" : "Bridged"; });

TEST_P(EitherLinkTest, CutsHeal) {
  make_either(2);
  count_at(1);
  ASSERT_TRUE(greet(0, 1));
  ASSERT_TRUE(hosts_->cut_silently(1));
  EXPECT_EQ(answers(0, 1, 3), 0);
  ASSERT_TRUE(hosts_->heal_silently(1));
  EXPECT_TRUE(greet(0, 1));
  ASSERT_TRUE(hosts_->cut(1));
  EXPECT_EQ(answers(0, 1, 3), 0);
  ASSERT_TRUE(hosts_->heal(1));
  EXPECT_TRUE(greet(0, 1));
}

TEST_P(EitherLinkTest, SidesOfAPartitionReachTheirOwnOnly) {
  make_either(4);
  count_at(1);
  ASSERT_TRUE(greet(0, 1));
  ASSERT_TRUE(greet(2, 1));
  ASSERT_TRUE(hosts_->partition({2, 3}));
  EXPECT_TRUE(greet(0, 1));
  EXPECT_EQ(answers(2, 1, 3), 0);
  count_at(3);
  EXPECT_TRUE(greet(2, 3));
  EXPECT_EQ(answers(0, 3, 3), 0);
  ASSERT_TRUE(hosts_->partition({}));
  EXPECT_TRUE(greet(0, 3));
}

// A peer of a host that died receives neither an end of its connection nor a reset.
TEST_P(EitherLinkTest, ADeadHostIsSilent) {
  make_either(3);
  const Signal listening;
  const Signal connected;
  const pid_t dead = hosts_->start(1, [&] {
    const int listener = listening_socket();
    if (listener < 0 || !listening.send()) return 1;
    const int stream = accept(listener, nullptr, nullptr);
    if (send(stream, "!", 1, 0) != 1) return 2;
    while (true) pause();
  });
  ASSERT_TRUE(listening.wait());
  const pid_t peer = hosts_->start(0, [&] {
    const int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in target = at_port(Hosts::address(1), kStreamPort);
    char byte = 0;
    if (connect(stream, as_address(target), sizeof target) != 0) return 1;
    if (recv(stream, &byte, 1, 0) != 1 || !connected.send()) return 2;
    pollfd polled = {stream, POLLIN, 0};
    return poll(&polled, 1, 2000) == 0 ? 0 : 3;
  });
  ASSERT_TRUE(connected.wait());
  ASSERT_TRUE(hosts_->die(1));
  EXPECT_EQ(exit_code_of(dead), -SIGKILL);
  EXPECT_EQ(exit_code_of(peer), 0);
  EXPECT_EQ(hosts_->start(1, [] { return 0; }), -1);
  count_at(2);
  EXPECT_TRUE(greet(0, 2));
}

// `./dev bench hosts` reports the figure.
TEST_F(LinkTimes, EmulatorCarriesMoreThanTheLinksOfTheTests) {
  make(2, {.delay = 100us});
  double rate = 0;
  for (int attempt = 0; attempt < 5 && rate <= 200e6; ++attempt) rate = stream_rate(0, 1);
  EXPECT_GT(rate, 200e6);
}

}  // namespace
}  // namespace ffdl::testing
