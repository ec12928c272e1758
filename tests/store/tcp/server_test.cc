#include "store/tcp/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "base/fork_private_fd.h"
#include "base/limits.h"
#include "ffdl/store.h"
#include "net/unproved_limit.h"
#include "store/tcp/raw_peer.h"
#include "support/foreign_flood.h"
#include "support/forwarding_runtime.h"
#include "support/low_limit.h"
#include "support/sanitized.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

// Grants a lease with this call, and puts "k" under it with the next one.
wire::Reply put_leased(RawPeer& peer, uint64_t sequence, Duration ttl) {
  wire::Request grant;
  grant.set_sequence(sequence);
  grant.mutable_grant_lease()->set_ttl_ns(ttl.count());
  wire::Request put = put_empty(sequence + 1, "k");
  put.mutable_put()->set_lease(peer.call(grant).number());
  return peer.call(put);
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
    // The time is a bound for hangs.
    const StoreOptions options{.operation_timeout = 1min, .secret = "s"};
    auto store = open_store("tcp://" + server_->address().text(), system_runtime(), options);
    EXPECT_OK(store);
    return std::move(store).value();
  }
  Revision server_revision() { return *other_->put("k", "now"); }
  // Expects that another client's store still works.
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
  EXPECT_NE(answer->refusal().message().find("the server uses version 2, this client 3"),
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

// A proof is valid for its own connection only.
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

// Exceeds the room in a process's table of descriptors that a fork closes.
constexpr size_t kFlood = 7000;

// Returns true if this process may open `count` descriptors; else the test is to be skipped.
bool allow_descriptors(size_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return true;
  if (limit.rlim_max < count) return false;
  limit.rlim_cur = count;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST_F(ServerTest, AFloodOfSilentConnectionsKeepsNoMemberOut) {
  if (!allow_descriptors(kFlood + 2000)) GTEST_SKIP() << "a flood needs more descriptors";
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (size_t i = 0; i < kFlood; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server_->address()));
    ASSERT_TRUE(flood.back()->connected()) << i;
    if (i == 1200) EXPECT_OK(open()->put("member", "in"));
  }
  EXPECT_OK(open()->put("member", "in"));
  expect_unharmed();
  // This process can still open descriptors that its children do not inherit.
  EXPECT_TRUE(base::ForkPrivateFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).valid());
  const auto still_open = [&] {
    return std::count_if(flood.begin(), flood.end(),
                         [](const auto& peer) { return !peer->is_closed(); });
  };
  EXPECT_LE(still_open(), static_cast<int64_t>(net::unproved_max()));
}

// The flood is from processes of another user, which may open any number of descriptors. The
// serving process has many or few of them.
TEST_F(ServerTest, AFloodOfAnotherUserKeepsNoMemberOut) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  for (const auto& [descriptors, connections] :
       {std::pair<rlim_t, size_t>{256, 1200}, {1024, 1200}, {1024, kFlood}}) {
    const testing::LowLimit low(RLIMIT_NOFILE, descriptors);
    testing::ForeignFlood flood(server_->address().port, connections);
    if (!flood.is_there()) GTEST_SKIP() << "a flood needs more descriptors";
    const Time before = system_runtime().now();
    const auto member = open();
    EXPECT_OK(member->put("member", "in"));
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(system_runtime().now() - before);
    expect_unharmed();
    const size_t held = flood.still_open();
    EXPECT_LE(held, net::unproved_max());
    EXPECT_TRUE(base::ForkPrivateFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).valid());
    std::printf(
        "%zu connections of user %u, ulimit -n %ju: a member opened and put in %jd ms, %zu "
        "connections left open\n",
        connections, testing::kOtherUser, uintmax_t{descriptors}, intmax_t{took.count()}, held);
  }
}

TEST_F(ServerTest, TheOldestOfThoseThatProvedNothingGoesFirst) {
  RawPeer member(server_->address());
  member.get_ready();
  std::string log;
  // On a busy machine the deadline of a handshake may pass first. Then they come again.
  EXPECT_TRUE(comes_true([&] {
    ::testing::internal::CaptureStderr();
    RawPeer oldest(server_->address());
    std::vector<std::unique_ptr<RawPeer>> others;
    for (size_t i = 0; i < net::unproved_max(); ++i) {
      others.push_back(std::make_unique<RawPeer>(server_->address()));
      EXPECT_TRUE(others.back()->connected()) << i;
    }
    EXPECT_TRUE(oldest.closed_by_server());
    log = ::testing::internal::GetCapturedStderr();
    return log.find("newer connections arrived") != std::string::npos;
  })) << log;
  EXPECT_FALSE(member.is_closed());
}

TEST_F(ServerTest, ARefusedConnectionIsClosedAtOnce) {
  ::testing::internal::CaptureStderr();
  RawPeer peer(server_->address());
  peer.hello(kProtocolVersion + 1);
  EXPECT_TRUE(peer.read()->has_refusal());
  EXPECT_TRUE(peer.closed_by_server());
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("server uses"), std::string::npos);
}

TEST_F(ServerTest, AFloodIsCountedInTheLogInPlaceOfALineForEach) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 300; ++i) {
    RawPeer peer(server_->address());
    peer.hello(kProtocolVersion + 1);
    EXPECT_TRUE(peer.read()->has_refusal());
    EXPECT_TRUE(peer.closed_by_server());
  }
  other_.reset();
  server_.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 4) << log;
  EXPECT_NE(log.find("refused 127.0.0.1: "), std::string::npos) << log;
  EXPECT_NE(log.find("more connections"), std::string::npos) << log;
}

size_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  size_t pages[2] = {};  // total and resident
  status >> pages[0] >> pages[1];
  return pages[1] * 4096;
}

TEST_F(ServerTest, WhatWaitsForClientsThatDoNotReadIsBounded) {
  const size_t before = resident_bytes();
  const std::string value(size_t{1} << 20, 'v');
  for (int key = 0; key < 30; ++key) ASSERT_OK(other_->put("v" + std::to_string(key), value));
  wire::FromClient list;
  list.mutable_request()->set_sequence(1);
  list.mutable_request()->mutable_list()->set_prefix("v");
  std::vector<std::unique_ptr<RawPeer>> deaf;
  for (uint64_t i = 0; i < 8; ++i) {
    deaf.push_back(std::make_unique<RawPeer>(server_->address()));
    deaf.back()->get_ready(100 + i);
    for (int call = 0; call < 2; ++call) deaf.back()->send(list);
    // This request is answered after the others, so the server has read them all.
    expect_unharmed();
  }
  const size_t bound = base::kStoreUnsentMax + 4 * base::kStoreReplyMax;
  EXPECT_TRUE(FFDL_IS_SANITIZED || resident_bytes() - before < bound) << resident_bytes();
  // A peer with few pending bytes is still connected.
  expect_unharmed();
}

// Each client has less than one pending message.
TEST_F(ServerTest, WhatWaitsForManyClientsThatDoNotReadIsBounded) {
  const std::string value(size_t{900} << 10, 'v');
  ASSERT_OK(other_->put("v", value));
  wire::FromClient get;
  get.mutable_request()->set_sequence(1);
  get.mutable_request()->mutable_get()->set_key("v");
  std::vector<std::unique_ptr<RawPeer>> deaf;
  const size_t bound = base::kStoreUnsentMax / value.size();
  for (uint64_t i = 0; i < bound + 60; ++i) {
    deaf.push_back(std::make_unique<RawPeer>(server_->address()));
    deaf.back()->get_ready(100 + i);
    deaf.back()->leave_little_room();
    deaf.back()->send(get);
  }
  expect_unharmed();
  const auto open = std::count_if(deaf.begin(), deaf.end(),
                                  [](const auto& peer) { return peer->other_end() >= 0; });
  EXPECT_LE(open, static_cast<int64_t>(bound));
  // A member that reads can continue, also with more data than any of them.
  for (int key = 0; key < 3; ++key) ASSERT_OK(other_->put("w" + std::to_string(key), value));
  EXPECT_EQ(other_->list("w")->size(), 3U);
  expect_unharmed();
}

TEST_F(ServerTest, AWaitForAPrefixThatNoKeyHasIsRefused) {
  RawPeer peer(server_->address());
  peer.get_ready();
  wire::Request request = wait(1, server_revision());
  request.mutable_wait_change()->set_prefix(std::string(base::kStoreKeyMax + 1, 'p'));
  const wire::Reply reply = peer.call(request);
  EXPECT_EQ(reply.code(), static_cast<uint32_t>(StatusCode::kInvalidArgument));
  EXPECT_EQ(reply.sequence(), 1U);
}

// The client with the most waits makes room for the others.
TEST_F(ServerTest, AllWaitsTogetherAreBounded) {
  std::vector<std::unique_ptr<RawPeer>> waiting;
  const Revision revision = server_revision();
  const auto wait_for = [&](uint64_t changes) {
    waiting.push_back(std::make_unique<RawPeer>(server_->address()));
    waiting.back()->get_ready(100 + waiting.size());
    for (uint64_t call = 1; call <= changes; ++call) {
      wire::FromClient message;
      *message.mutable_request() = wait(call, revision);
      waiting.back()->send(message);
    }
  };
  wait_for(3);  // as a member does
  const size_t each = base::kStoreCallsMax - 8;
  wait_for(each + 2);
  for (size_t waits = each + 5; waits + each <= base::kStoreWaitsMax; waits += each) wait_for(each);
  wait_for(each);
  EXPECT_TRUE(waiting[1]->closed_by_server());
  wait_for(3);  // another member
  expect_unharmed();
  for (const size_t member : {size_t{0}, waiting.size() - 2, waiting.size() - 1}) {
    EXPECT_FALSE(waiting[member]->is_closed()) << member;
  }
}

TEST_F(ServerTest, AKeyThatIsNotUtf8IsRefused) {
  EXPECT_FAILS(other_->put("bad\xff", "v"), StatusCode::kInvalidArgument, "'bad\\xff'");
  RawPeer peer(server_->address());
  peer.get_ready();
  EXPECT_EQ(peer.call(put_empty(1, "bad\xff")).code(),
            static_cast<uint32_t>(StatusCode::kInvalidArgument));
  EXPECT_OK(other_->put("K\xc3\xb6ln", "v"));
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
  const Revision revision = put_leased(*old, 1, 1h).number();
  {
    RawPeer again(server_->address());
    again.get_ready();
    EXPECT_TRUE(old->closed_by_server());
    old.reset();
    EXPECT_OK(other_->get("k"));
  }
  EXPECT_OK(other_->wait_change("k", revision, deadline_in(60s)));
  EXPECT_FAILS(other_->get("k"), StatusCode::kNotFound, "'k'");
}

// Models a process that does not run for a time, while its clients do not run either.
class Standing final : public testing::ForwardingRuntime {
 public:
  void stand(Duration time) { stood_ns_.fetch_add(time.count()); }

  Time now() override { return system_runtime().now() + Duration(stood_ns_.load()); }

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
  uint64_t call = 1;
  Time before;
  wire::Reply put;
  do {  // on a busy machine the lease may end before the put
    before = system_runtime().now();
    put = put_leased(peer, call, 1200ms);
    call += 2;
  } while (put.code() == static_cast<uint32_t>(StatusCode::kNotFound));
  ASSERT_EQ(put.code(), 0U);
  runtime.stand(2s);
  EXPECT_EQ(peer.call(wait(call, put.number())).code(), 0U);  // the lease has lived that long
  EXPECT_GE(system_runtime().now() - before, 2400ms);
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
  peer.send(message);  // once more, which has no effect
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
               "the store has no secret");
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
