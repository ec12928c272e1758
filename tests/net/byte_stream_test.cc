#include "net/byte_stream.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/fork_private_fd.h"

namespace ffdl::net {
namespace {

TEST(ByteStream, ReadsAndWritesPartsInOrderWithoutWaiting) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  base::ForkPrivateFd own(ends[0]);
  base::ForkPrivateFd other(ends[1]);
  const auto stream = plain_stream(own.get());
  const auto peer = plain_stream(other.get());
  std::string one = "abc";
  std::string two = "defg";
  std::string got(5, '?');
  std::string rest(5, '?');
  const std::array<iovec, 2> from = {iovec{one.data(), 3}, iovec{two.data(), 4}};
  const std::array<iovec, 2> to = {iovec{got.data(), 5}, iovec{rest.data(), 5}};
  EXPECT_EQ(stream->read(to).bytes, 0U);
  EXPECT_EQ(peer->write(from).bytes, 7U);
  EXPECT_EQ(stream->read(to).bytes, 7U);
  EXPECT_EQ(got, "abcde");
  EXPECT_EQ(rest, "fg???");
  std::vector<char> large(10'000'000);
  const iovec all = {large.data(), large.size()};
  const Moved some = stream->write({&all, 1});
  EXPECT_GT(some.bytes, 0U);
  EXPECT_LT(some.bytes, large.size());
  EXPECT_EQ(stream->write({&all, 1}).bytes, 0U);
}

TEST(ByteStream, AnEndIsReportedAndRaisesNoSignal) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  base::ForkPrivateFd own(ends[0]);
  base::ForkPrivateFd other(ends[1]);
  const auto stream = plain_stream(own.get());
  plain_stream(other.get())->shut_down();
  std::array<char, 1> byte{};
  const iovec part = {byte.data(), byte.size()};
  const Moved read = stream->read({&part, 1});
  EXPECT_TRUE(read.has_ended);
  EXPECT_EQ(read.cause, "it has closed its connection");
  const Moved written = stream->write({&part, 1});
  EXPECT_TRUE(written.has_ended);
  EXPECT_EQ(written.cause, "Broken pipe");
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(ByteStream, AnInterruptedOrFullCallMovesNothing) {
  for (const int error : {EAGAIN, EINTR}) {
    const Moved moved = moved_by(-1, error, /*may_end=*/true);
    EXPECT_FALSE(moved.has_ended);
    EXPECT_EQ(moved.bytes, 0U);
  }
  EXPECT_EQ(moved_by(-1, ECONNRESET, /*may_end=*/true).cause, "Connection reset by peer");
}

}  // namespace
}  // namespace ffdl::net
