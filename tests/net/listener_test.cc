#include "net/listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>

#include "support/low_limit.h"
#include "support/on_loop.h"
#include "support/sanitized.h"
#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

TEST(Listener, TellsThePortThatItGot) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  ASSERT_OK_AND_ASSIGN(auto listener, Listener::open(*loop, {"127.0.0.1", 0}));
  EXPECT_NE(listener->address().port, 0);
  EXPECT_EQ(listener->address().host, "127.0.0.1");
  loop->stop();
}

TEST(Listener, APortIsForOneAndFreeAfterwards) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  ASSERT_OK_AND_ASSIGN(auto listener, Listener::open(*loop, {"127.0.0.1", 0}));
  const Address address = listener->address();
  EXPECT_FAILS(Listener::open(*loop, address), StatusCode::kUnavailable, address.text());
  loop->stop();
  listener->close();
  EXPECT_OK(Listener::open(*loop, address));
}

TEST(Listener, AnAddressOfAnotherMachineIsNoPlaceToListen) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  EXPECT_FAILS(Listener::open(*loop, {"192.0.2.1", 0}), StatusCode::kInvalidArgument,
               "an address of this machine");
  EXPECT_FAILS(Listener::open(*loop, {"no such host", 0}), StatusCode::kInvalidArgument,
               "an address of this machine");
  loop->stop();
}

TEST(Listener, WithoutADescriptorItIsExhausted) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  {
    const testing::LowLimit none(RLIMIT_NOFILE, testing::next_descriptor());
    EXPECT_FAILS(Listener::open(*loop, {"127.0.0.1", 0}), StatusCode::kExhausted, "ulimit -n");
  }
  loop->stop();
}

// Accepting fails without a free descriptor, which is logged once. It continues by itself as soon
// as there is one.
TEST(Listener, WaitsForADescriptor) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  using namespace std::chrono_literals;
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  ASSERT_OK_AND_ASSIGN(auto listener, Listener::open(*loop, {"127.0.0.1", 0}));
  std::promise<void> accepted;
  testing::on_loop(*loop,
                   [&] { listener->start([&](asio::ip::tcp::socket) { accepted.set_value(); }); });
  ::testing::internal::CaptureStderr();  // needs descriptors itself
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int next = dup(client);  // the descriptor that accepting would get
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(listener->address().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  auto done = accepted.get_future();
  EXPECT_EQ(done.wait_for(50ms), std::future_status::timeout);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(done.wait_for(60s), std::future_status::ready);
  loop->stop();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_NE(log.find("Too many open files; raise the limit of open files"), std::string::npos)
      << log;
  close(client);
}

}  // namespace
}  // namespace ffdl::net
