#include "store/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>

#include "base/limits.h"
#include "ffdl/store.h"
#include "net/challenge.h"
#include "net/frame.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

// A peer that says whatever a test wants; each read waits 10 s at most.
class RawPeer {
 public:
  explicit RawPeer(const net::Address& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  }
  ~RawPeer() { ::close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }
  void send_bytes(std::string_view bytes) {
    // The server may have closed already.
    static_cast<void>(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void send(const wire::FromClient& message) {
    std::string bytes;
    net::append_frame(bytes, message.SerializeAsString());
    send_bytes(bytes);
  }
  // Nothing when the server has closed the connection.
  std::optional<wire::FromServer> read() {
    while (true) {
      auto frame = frames_.next();
      if (!frame.ok()) return std::nullopt;
      if (frame->has_value()) {
        wire::FromServer message;
        if (!message.ParseFromString(std::string(**frame))) return std::nullopt;
        return message;
      }
      char bytes[4096];
      const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
      if (got <= 0) return std::nullopt;
      frames_.feed({bytes, static_cast<size_t>(got)});
    }
  }
  bool closed_by_server() { return !read().has_value(); }

  void hello(uint32_t version = kProtocolVersion, uint64_t client = 7) {
    wire::FromClient message;
    message.mutable_hello()->set_version(version);
    message.mutable_hello()->set_client(client);
    message.mutable_hello()->set_nonce("nonce");
    send(message);
  }
  // To where requests may be sent.
  void get_ready(uint64_t client = 7) {
    hello(kProtocolVersion, client);
    const auto challenge = read();
    ASSERT_TRUE(challenge.has_value() && challenge->has_challenge());
    prove("s", challenge->challenge().nonce());
    const auto welcome = read();
    ASSERT_TRUE(welcome.has_value() && welcome->has_welcome());
    known_ = welcome->welcome().known();
  }
  void prove(std::string_view secret, std::string_view nonce) {
    wire::FromClient message;
    message.mutable_proof()->set_mac(net::mac_of(secret, {"client", "nonce", nonce}));
    send(message);
  }
  wire::Reply call(wire::Request request) {
    wire::FromClient message;
    *message.mutable_request() = std::move(request);
    send(message);
    const auto reply = read();
    EXPECT_TRUE(reply.has_value() && reply->has_reply());
    return reply.has_value() ? reply->reply() : wire::Reply();
  }
  bool known() const { return known_; }

 private:
  const int fd_;
  bool connected_ = false;
  bool known_ = false;
  net::FrameReader frames_{1U << 24};
};

wire::Request put_empty(uint64_t sequence, std::string_view key,
                        std::optional<Revision> expected = {}) {
  wire::Request request;
  request.set_sequence(sequence);
  request.mutable_put()->set_key(std::string(key));
  if (expected.has_value()) request.mutable_put()->set_expected(*expected);
  return request;
}

wire::Request wait(uint64_t sequence, Revision after) {
  wire::Request request;
  request.set_sequence(sequence);
  request.mutable_wait_change()->set_prefix("k");
  request.mutable_wait_change()->set_after(after);
  return request;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { start(); }

  void start() {
    auto server = Server::start(
        {.folder = folder_.path(), .address = {"127.0.0.1", 0}, .secret = "s"}, system_runtime());
    EXPECT_OK(server);
    server_ = std::move(server).value();
    other_ = open();
  }
  std::unique_ptr<Store> open() {
    StoreOptions options;
    options.secret = "s";
    auto store = open_store("tcp://" + server_->address().text(), system_runtime(), options);
    EXPECT_OK(store);
    return std::move(store).value();
  }
  // What others have is as it was.
  void expect_unharmed() {
    EXPECT_OK(other_->put("other", "unharmed"));
    EXPECT_EQ(other_->get("other")->value, "unharmed");
  }

  const TempFolder folder_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Store> other_;
};

TEST_F(ServerTest, GarbageEndsItsConnectionOnly) {
  std::string binary(300, '\0');
  for (size_t i = 0; i < binary.size(); ++i) binary[i] = static_cast<char>(i * 37);
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\nHost: me\r\n\r\n"), binary,
                                     std::string("\3\0\0\0abc", 7), std::string("\0\0\0\0", 4)}) {
    RawPeer peer(server_->address());
    ASSERT_TRUE(peer.connected());
    peer.send_bytes(garbage);
    EXPECT_TRUE(peer.closed_by_server());
    expect_unharmed();
  }
}

TEST_F(ServerTest, WhoIsReadyCannotSendGarbageEither) {
  RawPeer peer(server_->address());
  peer.get_ready();
  peer.send_bytes("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(peer.closed_by_server());
  RawPeer again(server_->address());
  again.get_ready();
  again.hello();  // a message of another stage
  EXPECT_TRUE(again.closed_by_server());
  expect_unharmed();
}

TEST_F(ServerTest, AnotherVersionIsToldSo) {
  RawPeer peer(server_->address());
  peer.hello(kProtocolVersion + 1);
  const auto answer = peer.read();
  ASSERT_TRUE(answer.has_value() && answer->has_refusal());
  EXPECT_NE(answer->refusal().message().find("the server speaks version 1, this client 2"),
            std::string::npos);
  expect_unharmed();
}

TEST_F(ServerTest, WithoutTheSecretNothingIsDone) {
  RawPeer peer(server_->address());
  peer.hello();
  const auto challenge = peer.read();
  ASSERT_TRUE(challenge.has_value() && challenge->has_challenge());
  wire::FromClient request;
  *request.mutable_request() = put_empty(1, "k");
  peer.send(request);
  EXPECT_TRUE(peer.closed_by_server());

  RawPeer liar(server_->address());
  liar.hello();
  const auto nonce = liar.read();
  liar.prove("t", nonce->challenge().nonce());
  const auto answer = liar.read();
  ASSERT_TRUE(answer.has_value() && answer->has_refusal());
  EXPECT_NE(answer->refusal().message().find("another secret"), std::string::npos);
  EXPECT_FAILS(other_->get("k"), StatusCode::kNotFound, "'k'");
}

// A proof is good for its own connection only.
TEST_F(ServerTest, NoTwoChallengesAreEqual) {
  RawPeer one(server_->address());
  RawPeer two(server_->address());
  one.hello();
  two.hello();
  const auto first = one.read();
  ASSERT_TRUE(first.has_value() && two.read().has_value());
  two.prove("s", first->challenge().nonce());
  const auto answer = two.read();
  EXPECT_TRUE(answer.has_value() && answer->has_refusal());
}

TEST_F(ServerTest, ARepeatedCallIsAnsweredAsBefore) {
  uint64_t revision = 0;
  {
    RawPeer peer(server_->address());
    peer.get_ready();
    EXPECT_FALSE(peer.known());
    revision = peer.call(put_empty(1, "k", 0)).number();
    EXPECT_GT(revision, 0U);
  }
  RawPeer again(server_->address());
  again.get_ready();
  EXPECT_TRUE(again.known());
  const wire::Reply reply = again.call(put_empty(1, "k", 0));
  EXPECT_EQ(reply.code(), 0U);
  EXPECT_EQ(reply.number(), revision);
  const wire::Reply other = again.call(put_empty(2, "k", 0));
  EXPECT_EQ(other.code(), static_cast<uint32_t>(StatusCode::kConflict));
  RawPeer stranger(server_->address());
  stranger.get_ready(8);
  EXPECT_NE(stranger.call(put_empty(1, "k", 0)).code(), 0U);
}

TEST_F(ServerTest, LeasesEndWithTheConnectionUnlessTheClientIsThereAgain) {
  auto old = std::make_unique<RawPeer>(server_->address());
  old->get_ready();
  wire::Request grant;
  grant.set_sequence(1);
  grant.mutable_grant_lease()->set_ttl_ns(Duration(1h).count());
  wire::Request under = put_empty(2, "k");
  under.mutable_put()->set_lease(old->call(grant).number());
  const Revision revision = old->call(under).number();
  {
    RawPeer again(server_->address());
    again.get_ready();
    EXPECT_TRUE(old->closed_by_server());
    old.reset();
    EXPECT_OK(other_->get("k"));
  }
  EXPECT_OK(other_->wait_change("k", revision, deadline_in(10s)));
  EXPECT_FAILS(other_->get("k"), StatusCode::kNotFound, "'k'");
}

// As one that its machine does not run for half a second, while its clients are not run either.
class Standing final : public Runtime {
 public:
  void stand(Duration time) { stood_ns_.fetch_add(time.count()); }

  Time now() override { return system_runtime().now() + Duration(stood_ns_.load()); }
  uint64_t random() override { return system_runtime().random(); }
  std::unique_ptr<Event> make_event() override { return system_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) override {
    return system_runtime().spawn(std::move(name), std::move(body));
  }

 private:
  std::atomic<int64_t> stood_ns_ = 0;
};

TEST_F(ServerTest, ItsOwnStandstillEndsNoLease) {
  Standing runtime;
  server_.reset();
  const auto server = Server::start(
      {.folder = folder_.path(), .address = {"127.0.0.1", 0}, .secret = "s"}, runtime);
  ASSERT_OK(server);
  RawPeer peer((*server)->address());
  peer.get_ready();
  wire::Request grant;
  grant.set_sequence(1);
  grant.mutable_grant_lease()->set_ttl_ns(Duration(300ms).count());
  wire::Request under = put_empty(2, "k");
  under.mutable_put()->set_lease(peer.call(grant).number());
  const Revision revision = peer.call(under).number();
  const Time granted = system_runtime().now();
  runtime.stand(500ms);
  EXPECT_EQ(peer.call(wait(3, revision)).code(), 0U);  // that is how long it has lived
  EXPECT_GE(system_runtime().now() - granted, 600ms);
}

TEST_F(ServerTest, AWaitThatIsGivenUpIsAnsweredOnce) {
  RawPeer peer(server_->address());
  peer.get_ready();
  const Revision revision = peer.call(put_empty(1, "k")).number();
  wire::FromClient message;
  *message.mutable_request() = wait(2, revision);
  peer.send(message);
  message.set_give_up(2);
  peer.send(message);
  const auto reply = peer.read();
  ASSERT_TRUE(reply.has_value() && reply->has_reply());
  EXPECT_EQ(reply->reply().code(), static_cast<uint32_t>(StatusCode::kTimeout));
  peer.send(message);  // once more, of which nothing comes
  EXPECT_EQ(peer.call(wait(3, revision - 1)).sequence(), 3U);
}

TEST_F(ServerTest, WhoWaitsForTooMuchIsDropped) {
  RawPeer peer(server_->address());
  peer.get_ready();
  const Revision revision = peer.call(put_empty(1, "k")).number();
  for (uint64_t i = 0; i <= base::kStoreCallsMax; ++i) {
    wire::FromClient message;
    *message.mutable_request() = wait(2 + i, revision);
    peer.send(message);
  }
  EXPECT_TRUE(peer.closed_by_server());
  expect_unharmed();
}

TEST_F(ServerTest, AFullStoreSaysSoAndOthersGoOn) {
  const std::string value(size_t{1} << 20, 'v');
  Status full;
  for (int key = 0; full.ok() && key < 100; ++key) {
    full = open()->put(std::to_string(key), value).status();
  }
  EXPECT_FAILS(full, StatusCode::kExhausted, "the store is full");
  EXPECT_OK(other_->get("0"));
  EXPECT_GT(other_->list("")->size(), 20U);
  expect_unharmed();
}

TEST_F(ServerTest, OthersMayNotReachItWithoutASecret) {
  const TempFolder folder;
  ServerOptions options{.folder = folder.path(), .address = {"0.0.0.0", 0}};
  EXPECT_FAILS(Server::start(options, system_runtime()), StatusCode::kInvalidArgument,
               "there is no secret");
  options.secret = "s";
  EXPECT_OK(Server::start(options, system_runtime()));
}

TEST_F(ServerTest, TakesAnotherPortWhenItMay) {
  const TempFolder folder;
  ServerOptions options{.folder = folder.path(), .address = server_->address()};
  EXPECT_FAILS(Server::start(options, system_runtime()), StatusCode::kUnavailable, "in use");
  options.other_port = true;
  ASSERT_OK_AND_ASSIGN(auto server, Server::start(options, system_runtime()));
  EXPECT_NE(server->address().port, server_->address().port);
}

}  // namespace
}  // namespace ffdl::store
