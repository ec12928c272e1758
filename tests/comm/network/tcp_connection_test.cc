#include "comm/network/tcp_connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>

#include "base/fork_private_fd.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

constexpr uint64_t kLarge = 5'000'000;  // more than sockets hold

std::vector<std::byte> pattern(uint64_t bytes, int seed) {
  std::vector<std::byte> made(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>((i * 31 + static_cast<uint64_t>(seed)) % 251);
  }
  return made;
}

// A connection, and the raw other end of its socket.
class TcpConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    own_ = base::ForkPrivateFd(ends[0]);
    other_ = base::ForkPrivateFd(ends[1]);
    connection_ = std::make_unique<TcpConnection>(net::plain_stream(own_.get()));
  }

  void write_raw(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(other_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  void write_header(const TcpFrame& frame) { write_raw(to_header(frame)); }

  base::ForkPrivateFd own_;
  base::ForkPrivateFd other_;
  std::unique_ptr<TcpConnection> connection_;
};

TEST_F(TcpConnectionTest, AMessageArrivesByteByByteAndMayBeShorterThanItsRoom) {
  const auto given = pattern(100, 1);
  std::vector<std::byte> got(200);
  OpenTransfers open;
  connection_->receive(Tag::kInput, got.data(), got.size(), open);
  const auto header = to_header({.tag = Tag::kInput, .number = 1, .bytes = given.size()});
  std::vector<std::byte> all(header.begin(), header.end());
  all.insert(all.end(), given.begin(), given.end());
  for (const std::byte& one : all) {
    EXPECT_EQ(open.count, 1U);
    write_raw({&one, 1});
    EXPECT_TRUE(connection_->move());
  }
  EXPECT_EQ(open.count, 0U);
  EXPECT_TRUE(std::equal(given.begin(), given.end(), got.begin()));
  EXPECT_EQ(got[given.size()], std::byte{0});
  EXPECT_FALSE(connection_->move());
}

TEST_F(TcpConnectionTest, BytesThatNoMemberSendsEndIt) {
  struct Wrong {
    TcpFrame frame;
    std::string_view why;
  };
  const Wrong wrongs[] = {
      {{.kind = static_cast<FrameKind>(3), .number = 1}, "bytes that are not a frame"},
      {{.tag = static_cast<Tag>(kTagCount), .number = 1}, "bytes that are not a frame"},
      {{.number = 2}, "frame 2 in place of 1"},
      {{.number = 0}, "frame 0 in place of 1"},
      {{.number = 1, .bytes = 17}, "a message of 17 bytes where at most 16 fit"},
      {{.number = 1, .bytes = ~uint64_t{0}}, "bytes where at most 16 fit"},
      {{.kind = FrameKind::kReceipt, .tag = Tag::kMessage, .number = 1},
       "a receipt of a message that it was not sent"},
      {{.kind = FrameKind::kReceipt, .tag = Tag::kMessage, .number = 1, .bytes = 1},
       "a receipt that confirms nothing"},
      {{.kind = FrameKind::kReceipt, .tag = Tag::kInput, .number = 1},
       "a receipt that confirms nothing"},
  };
  for (const Wrong& wrong : wrongs) {
    SetUp();
    OpenTransfers open;
    std::array<std::byte, 16> room{};
    connection_->receive(Tag::kFirst, room.data(), room.size(), open);
    write_header(wrong.frame);
    connection_->move();
    EXPECT_FAILS(connection_->loss_for(open), StatusCode::kCorrupt, std::string(wrong.why));
    EXPECT_FALSE(connection_->move());
    EXPECT_EQ(connection_->wanted_events(), 0);
  }
  SetUp();
  write_raw(pattern(kFrameHeaderBytes, 5));
  connection_->move();
  EXPECT_FAILS(connection_->ended(), StatusCode::kCorrupt, "bytes that are not a frame");
}

TEST_F(TcpConnectionTest, ACutWithinAHeaderOrAMessageIsALoss) {
  for (const uint64_t sent : {uint64_t{0}, uint64_t{1}, uint64_t{kFrameHeaderBytes - 1},
                              uint64_t{kFrameHeaderBytes}, uint64_t{kFrameHeaderBytes + 15}}) {
    SetUp();
    OpenTransfers open;
    std::array<std::byte, 16> room{};
    connection_->receive(Tag::kFirst, room.data(), room.size(), open);
    std::vector<std::byte> bytes(kFrameHeaderBytes + room.size());
    std::ranges::copy(to_header({.number = 1, .bytes = room.size()}), bytes.begin());
    write_raw(std::span(bytes).first(sent));
    connection_->move();
    EXPECT_OK(connection_->loss_for(open));
    other_.close();
    connection_->move();
    EXPECT_FAILS(connection_->loss_for(open), StatusCode::kPeerLost,
                 "it has closed its connection");
    OpenTransfers none;
    EXPECT_OK(connection_->loss_for(none));
  }
}

TEST_F(TcpConnectionTest, AMessageWithoutAReceiveIsNotReadAndStopsThoseBehindIt) {
  std::array<std::byte, 8> early{};
  std::array<std::byte, 8> late{};
  OpenTransfers open;
  connection_->receive(Tag::kResult, late.data(), late.size(), open);
  const auto given = pattern(16, 3);
  write_header({.tag = Tag::kInput, .number = 1, .bytes = 8});
  write_raw(std::span(given).first(8));
  write_header({.tag = Tag::kResult, .number = 2, .bytes = 8});
  write_raw(std::span(given).last(8));
  connection_->move();
  EXPECT_EQ(open.count, 1U);
  EXPECT_EQ(connection_->wanted_events(), POLLRDHUP);
  // Only what its room holds has been read.
  std::vector<std::byte> more(1 << 20);
  const ssize_t first = ::send(other_.get(), more.data(), more.size(), MSG_NOSIGNAL);
  connection_->move();
  const ssize_t second = ::send(other_.get(), more.data(), more.size(), MSG_NOSIGNAL);
  EXPECT_GT(first, 0);
  EXPECT_LT(second, 0);
  connection_->receive(Tag::kInput, early.data(), early.size(), open);
  connection_->move();
  EXPECT_TRUE(std::equal(early.begin(), early.end(), given.begin()));
  EXPECT_TRUE(std::equal(late.begin(), late.end(), given.begin() + 8));
  EXPECT_EQ(open.count, 0U);
}

TEST_F(TcpConnectionTest, AHangUpBehindAMessageWithoutAReceiveIsALossForWhoWaits) {
  std::array<std::byte, 8> room{};
  OpenTransfers open;
  connection_->receive(Tag::kResult, room.data(), room.size(), open);
  write_header({.tag = Tag::kInput, .number = 1, .bytes = 8});
  write_raw(room);
  other_.close();
  connection_->move();
  EXPECT_OK(connection_->loss_for(open));
  connection_->note_hangup();
  EXPECT_FAILS(connection_->loss_for(open), StatusCode::kPeerLost, "it has closed");
  EXPECT_EQ(connection_->wanted_events(), 0);
  // The message is still there for a later receive.
  OpenTransfers later;
  connection_->receive(Tag::kInput, room.data(), room.size(), later);
  connection_->move();
  EXPECT_EQ(later.count, 0U);
}

TEST_F(TcpConnectionTest, BothSidesSendMoreThanSocketsHold) {
  TcpConnection other(net::plain_stream(other_.get()));
  const auto one = pattern(kLarge, 1);
  const auto two = pattern(kLarge, 2);
  std::vector<std::byte> got_one(kLarge);
  std::vector<std::byte> got_two(kLarge);
  OpenTransfers open;
  connection_->send(Tag::kInput, one.data(), kLarge, open);
  other.send(Tag::kInput, two.data(), kLarge, open);
  EXPECT_TRUE(connection_->has_unsent());
  connection_->receive(Tag::kInput, got_two.data(), kLarge, open);
  other.receive(Tag::kInput, got_one.data(), kLarge, open);
  // Each turn moves something, or the two would wait for each other forever.
  while (open.count > 0) {
    const bool has_moved = connection_->move();
    ASSERT_TRUE(other.move() || has_moved);
  }
  EXPECT_EQ(one, got_one);
  EXPECT_EQ(two, got_two);
}

TEST_F(TcpConnectionTest, AConfirmedMessageCompletesWithItsReceipt) {
  TcpConnection other(net::plain_stream(other_.get()));
  const auto given = pattern(10, 1);
  std::vector<std::byte> got(10);
  OpenTransfers sent;
  OpenTransfers received;
  connection_->send(Tag::kMessage, given.data(), given.size(), sent);
  connection_->move();
  EXPECT_FALSE(connection_->has_unsent());
  EXPECT_EQ(sent.count, 1U);
  other.move();
  connection_->move();
  EXPECT_EQ(sent.count, 1U) << "nothing has received it";
  other.receive(Tag::kMessage, got.data(), got.size(), received);
  other.move();
  EXPECT_EQ(received.count, 0U);
  EXPECT_EQ(sent.count, 1U);
  connection_->move();
  EXPECT_EQ(sent.count, 0U);
  EXPECT_EQ(given, got);
}

TEST_F(TcpConnectionTest, AnAbandonedTransferEndsItUnlessItHasNotBegun) {
  std::array<std::byte, 16> room{};
  {
    OpenTransfers open;
    connection_->receive(Tag::kFirst, room.data(), room.size(), open);
    connection_->forget(open);
  }
  EXPECT_OK(connection_->ended());
  OpenTransfers open;
  connection_->receive(Tag::kFirst, room.data(), room.size(), open);
  write_header({.number = 1, .bytes = 16});
  write_raw(std::span(room).first(8));
  connection_->move();
  connection_->forget(open);
  EXPECT_FAILS(connection_->ended(), StatusCode::kPeerLost, "abandoned");
  std::byte one{};
  EXPECT_EQ(::recv(other_.get(), &one, 1, 0), 0) << "the other side reads the end";
}

}  // namespace
}  // namespace ffdl::comm
