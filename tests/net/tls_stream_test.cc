#include "net/tls_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/fork_private_fd.h"
#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

using base::ForkPrivateFd;

const std::string kKey(kTlsKeyBytes, 'k');
const std::string kOtherKey(kTlsKeyBytes, 'o');

// Two sides whose bytes pass through the test, which sees and may change them.
class TlsStreamTest : public ::testing::Test {
 protected:
  static std::array<ForkPrivateFd, 2> pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    return {ForkPrivateFd(ends[0]), ForkPrivateFd(ends[1])};
  }

  void SetUp() override {
    client_end_ = pair();
    server_end_ = pair();
    seen_.clear();
  }

  void connect(const std::string& server_key, const std::string& server_identity = "a") {
    using Side = TlsStream::Side;
    ASSERT_OK_AND_ASSIGN(client_, TlsStream::make(client_end_[0].get(), Side::kClient, kKey, "a"));
    ASSERT_OK_AND_ASSIGN(
        server_, TlsStream::make(server_end_[0].get(), Side::kServer, server_key, server_identity));
  }

  // Passes what has been sent on to the other side. Returns whether there was anything.
  bool relay() {
    bool has_relayed = false;
    for (const auto& [from, to] : {std::pair(&client_end_[1], &server_end_[1]),
                                   std::pair(&server_end_[1], &client_end_[1])}) {
      std::array<char, 16384> bytes{};
      const ssize_t got = ::recv(from->get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) continue;
      has_relayed = true;
      seen_.append(bytes.data(), static_cast<size_t>(got));
      if (flips_) bytes[static_cast<size_t>(got) / 2] ^= 1;
      EXPECT_EQ(::send(to->get(), bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL), got);
    }
    return has_relayed;
  }

  // Returns the first failure, or OK when both sides are done.
  Status handshake() {
    bool client = false;
    bool server = false;
    for (int turn = 0; turn < 100 && (!client || !server); ++turn) {
      for (const auto& [stream, is_done] :
           {std::pair(client_.get(), &client), std::pair(server_.get(), &server)}) {
        if (!*is_done) {
          FFDL_ASSIGN_OR_RETURN(*is_done, stream->handshake());
        }
        relay();
      }
    }
    return client && server ? Status() : Status(StatusCode::kTimeout, "it goes on and on");
  }

  std::array<ForkPrivateFd, 2> client_end_;
  std::array<ForkPrivateFd, 2> server_end_;
  std::unique_ptr<TlsStream> client_;
  std::unique_ptr<TlsStream> server_;
  std::string seen_;
  bool flips_ = false;
};

TEST_F(TlsStreamTest, CarriesBytesThatNobodyBetweenCanRead) {
  connect(kKey);
  ASSERT_OK(handshake());
  for (const size_t bytes : {1U, 5000U, 16384U, 300'000U}) {
    std::string header = "a header of a message";
    std::string given(bytes, 'x');
    const std::string secret = "the text of a sum";
    if (bytes > secret.size()) given.replace(bytes / 2, secret.size(), secret);
    std::string got(header.size() + bytes, '?');
    size_t sent = 0;
    size_t received = 0;
    for (int turn = 0; turn < 10'000 && received < got.size(); ++turn) {
      const size_t of_header = std::min(sent, header.size());
      const std::array<iovec, 2> from = {
          iovec{header.data() + of_header, header.size() - of_header},
          iovec{given.data() + (sent - of_header), given.size() - (sent - of_header)}};
      const Moved written = client_->write(from);
      ASSERT_FALSE(written.has_ended) << written.cause;
      sent += written.bytes;
      relay();
      const iovec to = {got.data() + received, got.size() - received};
      const Moved read = server_->read({&to, 1});
      ASSERT_FALSE(read.has_ended) << read.cause;
      received += read.bytes;
    }
    EXPECT_EQ(got, header + given);
    EXPECT_EQ(seen_.find(secret), std::string::npos);
    EXPECT_EQ(seen_.find(header), std::string::npos);
  }
}

TEST_F(TlsStreamTest, ASideWithAnotherKeyOrIdentityIsRefused) {
  connect(kOtherKey);
  EXPECT_FAILS(handshake(), StatusCode::kPeerLost, "TLS: ");
  SetUp();
  connect(kKey, "another");
  EXPECT_FAILS(handshake(), StatusCode::kPeerLost, "TLS: ");
}

TEST_F(TlsStreamTest, BytesThatAreNotTlsAreRefused) {
  connect(kKey);
  const std::string noise(100, 'x');
  ASSERT_EQ(::send(server_end_[1].get(), noise.data(), noise.size(), 0), std::ssize(noise));
  EXPECT_FAILS(server_->handshake(), StatusCode::kPeerLost, "TLS: ");
}

TEST_F(TlsStreamTest, AChangedByteEndsIt) {
  connect(kKey);
  ASSERT_OK(handshake());
  std::string given(1000, 'x');
  const iovec from = {given.data(), given.size()};
  EXPECT_EQ(client_->write({&from, 1}).bytes, given.size());
  flips_ = true;
  EXPECT_TRUE(relay());
  std::string got(given.size(), '?');
  const iovec to = {got.data(), got.size()};
  const Moved read = server_->read({&to, 1});
  EXPECT_TRUE(read.has_ended);
  EXPECT_EQ(read.bytes, 0U);
}

TEST_F(TlsStreamTest, AnEndIsReported) {
  connect(kKey);
  ASSERT_OK(handshake());
  std::array<std::byte, 10> got{};
  const iovec to = {got.data(), got.size()};
  EXPECT_FALSE(server_->read({&to, 1}).has_ended);
  server_end_[1].close();
  const Moved read = server_->read({&to, 1});
  EXPECT_TRUE(read.has_ended);
  EXPECT_EQ(read.cause, "it has closed its connection");
}

}  // namespace
}  // namespace ffdl::net
