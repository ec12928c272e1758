#include "store/tcp/link.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <thread>

#include "ffdl/store.h"
#include "net/challenge.h"
#include "net/listener.h"
#include "store/failing_call.h"
#include "store/tcp/folder_secret.h"
#include "store/tcp/server_folder.h"
#include "support/low_limit.h"
#include "support/other_user.h"
#include "support/sanitized.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

// Opens stores by their folder: the first process serves it.
class TcpLinkTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Store>> open(StoreOptions options = {}) {
    return open_store("tcp://" + folder_.path(), system_runtime(), options);
  }

  const TempFolder folder_;
};

TEST_F(TcpLinkTest, AnotherServesWhenTheServerIsGone) {
  ASSERT_OK_AND_ASSIGN(auto first, open());
  ASSERT_OK_AND_ASSIGN(auto second, open());
  ASSERT_OK_AND_ASSIGN(auto third, open());
  ASSERT_OK_AND_ASSIGN(const Revision before, first->put("k", "v"));
  const auto address = read_server_address(folder_.path());
  first.reset();
  ASSERT_OK_AND_ASSIGN(const Revision after, second->put("k", "w"));
  EXPECT_GT(after, before);
  second.reset();
  ASSERT_OK(third->put("k", "x"));
  EXPECT_EQ(third->get("k")->value, "x");
  // other processes may know this address
  EXPECT_EQ(*read_server_address(folder_.path()), *address);
}

TEST_F(TcpLinkTest, LeasesGoOnUnderTheNextServerButThoseThatDiedWithTheLast) {
  ASSERT_OK_AND_ASSIGN(auto first, open());
  ASSERT_OK_AND_ASSIGN(auto second, open());
  ASSERT_OK_AND_ASSIGN(const LeaseId dies, first->grant_lease(1h));
  ASSERT_OK_AND_ASSIGN(const LeaseId lives, second->grant_lease(1h));
  ASSERT_OK(first->put("first", "v", dies));
  ASSERT_OK(second->put("second", "v", lives));
  first.reset();
  EXPECT_FAILS(second->get("first"), StatusCode::kNotFound, "'first'");
  EXPECT_OK(second->keep_alive(lives));
  ASSERT_OK_AND_ASSIGN(auto third, open());
  const Revision newest = third->get("second")->revision;
  second.reset();
  EXPECT_OK(third->wait_change("second", newest, deadline_in(60s)));
  EXPECT_FAILS(third->get("second"), StatusCode::kNotFound, "'second'");
}

TEST_F(TcpLinkTest, AWaitGoesOnUnderTheNextServer) {
  ASSERT_OK_AND_ASSIGN(auto first, open());
  ASSERT_OK_AND_ASSIGN(auto second, open());
  ASSERT_OK_AND_ASSIGN(auto third, open());
  ASSERT_OK_AND_ASSIGN(const Revision start, second->put("k", "v"));
  Result<Revision> changed = Revision{0};
  std::thread waiter([&] { changed = second->wait_change("k", start, deadline_in(60s)); });
  first.reset();
  EXPECT_OK(third->put("k", "w"));
  waiter.join();
  ASSERT_OK(changed);
  EXPECT_GT(*changed, start);
}

TEST_F(TcpLinkTest, ALogThatIsNoLogIsSaidAtOnce) {
  folder_.write("log", "something else");
  EXPECT_FAILS(open({.operation_timeout = 1h}), StatusCode::kCorrupt, "its first bytes are wrong");
}

TEST_F(TcpLinkTest, WhoHasAnotherSecretDoesNotServe) {
  StoreOptions options;
  options.secret = "s";
  ASSERT_OK_AND_ASSIGN(auto first, open(options));
  ASSERT_OK_AND_ASSIGN(auto second, open(options));
  options.secret = "t";
  options.operation_timeout = 2s;  // the folder might name another server meanwhile
  expect_call_fails([&] { return open(options).status(); }, StatusCode::kInvalidArgument,
                    "another secret");
  options.operation_timeout = 1h;
  first.reset();
  EXPECT_OK(second->put("k", "v"));
  second.reset();
  EXPECT_FAILS(open(options), StatusCode::kInvalidArgument, "another secret");
}

// A program at the port of a server, which answers each message as the test sets.
class Squatter {
 public:
  using Answer = std::function<wire::FromServer(const wire::FromClient& message)>;

  explicit Squatter(Answer answer) : answer_(std::move(answer)) {
    auto loop = net::Loop::start("test");
    EXPECT_OK(loop);
    loop_ = std::move(*loop);
    auto listener = net::Listener::open(*loop_, {"127.0.0.1", 0});
    EXPECT_OK(listener);
    listener_ = std::move(*listener);
    loop_->post([this] {
      listener_->start([this](asio::ip::tcp::socket socket) {
        connections_.push_back(net::Connection::accepted(
            std::move(socket),
            {.on_open = {},
             .on_frame = [this, at = connections_.size()](std::string_view f) { take(at, f); },
             .on_closed = [](const Status&) {}}));
      });
    });
  }
  ~Squatter() { loop_->stop(); }

  const net::Address& address() const { return listener_->address(); }
  int hellos() const { return hellos_; }
  int others() const { return others_; }

 private:
  void take(size_t at, std::string_view frame) {
    wire::FromClient message;
    const bool read = message.ParseFromArray(frame.data(), static_cast<int>(frame.size()));
    ++(read && message.has_hello() ? hellos_ : others_);
    connections_.at(at)->send(answer_(message).SerializeAsString());
  }

  const Answer answer_;
  std::unique_ptr<net::Loop> loop_;
  std::shared_ptr<net::Listener> listener_;
  std::vector<std::shared_ptr<net::Connection>> connections_;
  std::atomic<int> hellos_ = 0;
  std::atomic<int> others_ = 0;
};

wire::FromServer guessed_challenge(const wire::FromClient& hello) {
  wire::FromServer message;
  message.mutable_challenge()->set_nonce("nonce");
  message.mutable_challenge()->set_mac(
      net::mac_of("a guess", {"server", hello.hello().nonce(), "nonce"}));
  return message;
}

wire::FromServer refusal(StatusCode code) {
  wire::FromServer message;
  message.mutable_refusal()->set_code(static_cast<uint32_t>(code));
  message.mutable_refusal()->set_message("\x1b]0;mine\x07 all is well\x1b[2J");
  return message;
}

// A server at a squatted port receives nothing with which it could test guesses of the secret.
TEST_F(TcpLinkTest, AServerThatCannotProveItselfGetsNoProof) {
  const Squatter squatter(guessed_challenge);
  TcpLink::Options options;
  options.address = squatter.address();
  options.secret = "the job's";
  options.operation_timeout = 1h;  // it fails at once
  EXPECT_FAILS(TcpLink::open(options, system_runtime()), StatusCode::kInvalidArgument,
               "the server has another secret");
  EXPECT_GE(squatter.hellos(), 1);  // more if an answer took longer than the time for one
  EXPECT_EQ(squatter.others(), 0);
}

// A squatter can neither choose how a call ends nor send control characters to a terminal.
TEST_F(TcpLinkTest, ARefusalBeforeTheProofIsNotBelieved) {
  const Squatter squatter([](const auto&) { return refusal(StatusCode::kCorrupt); });
  TcpLink::Options options;
  options.address = squatter.address();
  options.operation_timeout = 1s;
  Status refused;  // on a busy machine the time may be over before the second attempt
  EXPECT_TRUE(comes_true([&] {
    refused = TcpLink::open(options, system_runtime()).status();
    const bool is_said = refused.message().find("has not proved") != std::string_view::npos;
    return is_said && squatter.hellos() > 1;
  })) << refused.to_string();
  EXPECT_FAILS(refused, StatusCode::kUnavailable,
               "has not proved itself, and refuses: \\x1b]0;mine\\x07 all is well\\x1b[2J");
  EXPECT_EQ(refused.to_string().find('\x1b'), std::string::npos);
}

// Another program has got the port that the folder names, and answers as a server might. The store
// is opened as soon as the folder has a server.
TEST_F(TcpLinkTest, ASquatterAtThePortThatAFolderNamesIsPassedOver) {
  const std::vector<Squatter::Answer> answers = {
      guessed_challenge, [](const auto&) { return refusal(StatusCode::kCorrupt); },
      [](const auto&) { return refusal(StatusCode::kInvalidArgument); }};
  for (const Squatter::Answer& answer : answers) {
    const TempFolder folder;
    const Squatter squatter(answer);
    auto lock = std::make_unique<Result<base::ForkPrivateFd>>(lock_server_folder(folder.path()));
    ASSERT_OK(*lock);
    ASSERT_OK(write_server_address(folder.path(), squatter.address()));
    Result<std::unique_ptr<Store>> opened = Status(StatusCode::kInternal, "");
    std::thread opener([&] {
      opened = open_store("tcp://" + folder.path(), system_runtime(), {.operation_timeout = 1min});
    });
    const auto never = system_runtime().make_event();
    for (const Time end = deadline_in(60s); squatter.hellos() < 2 && deadline_in({}) < end;) {
      never->wait_until(deadline_in(1ms));
    }
    EXPECT_GE(squatter.hellos(), 2);
    lock.reset();
    opener.join();
    EXPECT_OK(opened);
    EXPECT_EQ(squatter.others(), 0);
  }
}

// Models a busy host, where a descriptor is freed meanwhile.
TEST_F(TcpLinkTest, AStartWithoutADescriptorIsTriedAgain) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  const rlim_t before = testing::next_descriptor();
  rlim_t of_loop = 0;
  {
    ASSERT_OK_AND_ASSIGN(const auto loop, net::Loop::start("test"));
    of_loop = testing::next_descriptor() - before;
  }
  auto few =
      std::make_unique<testing::LowLimit>(RLIMIT_NOFILE, testing::next_descriptor() + of_loop + 1);
  auto opened =
      std::async(std::launch::async, [this] { return open({.operation_timeout = 1min}); });
  EXPECT_EQ(opened.wait_for(300ms), std::future_status::timeout);
  few.reset();
  ASSERT_OK_AND_ASSIGN(auto store, opened.get());
  EXPECT_OK(store->put("k", "v"));
}

// Another user was first. Nothing is sent to the address in that folder.
TEST_F(TcpLinkTest, AFolderOfAnotherUserIsNotUsed) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  ASSERT_EQ(chmod(folder_.path().c_str(), 01777), 0);
  const std::string squatted = folder_.file("cluster");
  const std::string victim = folder_.write("victim", "precious");
  const int code = testing::as_other_user([&] {
    const bool made = mkdir(squatted.c_str(), 0777) == 0 && chmod(squatted.c_str(), 0777) == 0;
    for (const char* name : {"log", "address", "address.new", "server.lock"}) {
      if (symlink(victim.c_str(), (squatted + "/" + name).c_str()) != 0) return 1;
    }
    return made ? 0 : 1;
  });
  ASSERT_EQ(code, 0);
  for (const std::string scheme : {"tcp://", "file://"}) {
    EXPECT_FAILS(open_store(scheme + squatted, system_runtime(), {}), StatusCode::kInvalidArgument,
                 "belongs to user 65534");
  }
  std::ifstream file(victim);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious");
}

TEST_F(TcpLinkTest, AStoreThatIsFoundByItsFolderHasASecret) {
  ASSERT_OK_AND_ASSIGN(auto first, open());
  ASSERT_OK(first->put("k", "v"));
  ASSERT_OK_AND_ASSIGN(auto second, open());
  EXPECT_EQ(second->get("k")->value, "v");
  ASSERT_OK_AND_ASSIGN(const auto address, read_server_address(folder_.path()));
  const std::string url = "tcp://" + address.text();
  EXPECT_FAILS(open_store(url, system_runtime()), StatusCode::kInvalidArgument, "another secret");
  ASSERT_OK_AND_ASSIGN(const std::string secret, read_folder_secret(folder_.path()));
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_OK(open_store(url, system_runtime(), {.secret = secret}));
  first.reset();
  EXPECT_EQ(second->get("k")->value, "v");  // it serves now, with the same secret
  EXPECT_EQ(read_folder_secret(folder_.path()).value(), secret);
}

// The store was created by a server without a secret, as StoreServer may be on a loopback. The next
// process that serves its folder creates a secret. Members that open the store by its folder
// follow.
TEST_F(TcpLinkTest, AnOpenStoreOfAFolderGetsASecretFromItsNextServer) {
  {
    ASSERT_OK_AND_ASSIGN(auto server, StoreServer::start({.folder = folder_.path()}));
    ASSERT_OK_AND_ASSIGN(auto store, open());
    ASSERT_OK(store->put("k", "v"));
    EXPECT_EQ(read_folder_secret(folder_.path()).value(), "");
  }
  ASSERT_OK_AND_ASSIGN(auto first, open());
  EXPECT_EQ(first->get("k")->value, "v");
  ASSERT_OK_AND_ASSIGN(const std::string secret, read_folder_secret(folder_.path()));
  EXPECT_EQ(secret.size(), 64U);
  ASSERT_OK_AND_ASSIGN(auto second, open());
  EXPECT_EQ(second->get("k")->value, "v");
  ASSERT_OK_AND_ASSIGN(const auto address, read_server_address(folder_.path()));
  EXPECT_FAILS(open_store("tcp://" + address.text(), system_runtime()),
               StatusCode::kInvalidArgument, "another secret");
  first.reset();
  EXPECT_EQ(second->get("k")->value, "v");
  EXPECT_EQ(read_folder_secret(folder_.path()).value(), secret);
}

// Listens, and answers everything with a message that no store sends.
TEST_F(TcpLinkTest, AnotherProgramAtTheAddressIsNoStore) {
  ASSERT_OK_AND_ASSIGN(auto loop, net::Loop::start("test"));
  ASSERT_OK_AND_ASSIGN(auto listener, net::Listener::open(*loop, {"127.0.0.1", 0}));
  std::vector<std::shared_ptr<net::Connection>> connections;
  loop->post([&] {
    listener->start([&](asio::ip::tcp::socket socket) {
      connections.push_back(net::Connection::accepted(
          std::move(socket),
          {.on_open = {}, .on_frame = [](std::string_view) {}, .on_closed = [](const Status&) {}}));
      connections.back()->send("hello yourself");
    });
  });
  TcpLink::Options options;
  options.address = listener->address();
  options.operation_timeout = 2s;
  expect_call_fails([&] { return TcpLink::open(options, system_runtime()).status(); },
                    StatusCode::kUnavailable, "the server there is not a store of ffdl");
  loop->stop();
}

}  // namespace
}  // namespace ffdl::store
