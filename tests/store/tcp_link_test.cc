#include "store/tcp_link.h"

#include <gtest/gtest.h>

#include <thread>

#include "net/listener.h"
#include "store/server_folder.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

// Stores that are opened by their folder: whoever comes first serves it.
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
  EXPECT_EQ(*read_server_address(folder_.path()), *address);  // others may know it
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
  EXPECT_OK(third->wait_change("second", newest, deadline_in(10s)));
  EXPECT_FAILS(third->get("second"), StatusCode::kNotFound, "'second'");
}

TEST_F(TcpLinkTest, AWaitGoesOnUnderTheNextServer) {
  ASSERT_OK_AND_ASSIGN(auto first, open());
  ASSERT_OK_AND_ASSIGN(auto second, open());
  ASSERT_OK_AND_ASSIGN(auto third, open());
  ASSERT_OK_AND_ASSIGN(const Revision start, second->put("k", "v"));
  Result<Revision> changed = Revision{0};
  std::thread waiter([&] { changed = second->wait_change("k", start, deadline_in(10s)); });
  first.reset();
  EXPECT_OK(third->put("k", "w"));
  waiter.join();
  ASSERT_OK(changed);
  EXPECT_GT(*changed, start);
}

TEST_F(TcpLinkTest, ALogThatIsNoLogIsSaidAtOnce) {
  folder_.write("log", "something else");
  EXPECT_FAILS(open({.operation_timeout = 1h}), StatusCode::kCorrupt, "does not begin as one");
}

TEST_F(TcpLinkTest, WhoHasAnotherSecretDoesNotServe) {
  StoreOptions options;
  options.secret = "s";
  ASSERT_OK_AND_ASSIGN(auto first, open(options));
  ASSERT_OK_AND_ASSIGN(auto second, open(options));
  options.secret = "t";
  options.operation_timeout = 1h;
  EXPECT_FAILS(open(options), StatusCode::kInvalidArgument, "another secret");
  first.reset();
  EXPECT_OK(second->put("k", "v"));
  second.reset();
  EXPECT_FAILS(open(options), StatusCode::kInvalidArgument, "another secret");
}

// Listens, and answers whatever comes with a message that no store sends.
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
  options.operation_timeout = 100ms;
  EXPECT_FAILS(TcpLink::open(options, system_runtime()), StatusCode::kUnavailable,
               "what answers there is no store of ffdl");
  loop->stop();
}

}  // namespace
}  // namespace ffdl::store
