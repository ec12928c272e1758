#include "net/connection.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <optional>

#include "base/limits.h"
#include "net/listener.h"
#include "support/fork_child.h"
#include "support/low_limit.h"
#include "support/on_loop.h"
#include "support/program.h"
#include "support/sanitized.h"
#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

using namespace std::chrono_literals;
using testing::on_loop;

// One end of a connection, with a wait for its events.
struct End {
  std::shared_ptr<Connection> connection;
  std::promise<void> open;
  std::promise<std::string> frame;
  std::promise<Status> closed;

  Connection::Events events() {
    return {.on_open = [this] { open.set_value(); },
            .on_frame = [this](std::string_view got) { frame.set_value(std::string(got)); },
            .on_closed = [this](const Status& why) { closed.set_value(why); }};
  }
};

// Counts the sockets that a program started from here finds open.
size_t inherited_sockets() {
  const std::string list = run_program("ls -l /proc/self/fd").out;
  size_t found = 0;
  for (size_t at = 0; (at = list.find("socket:", at)) != std::string::npos; ++at) ++found;
  return found;
}

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    loop_ = Loop::start("test").value();
    auto listener = Listener::open(*loop_, {"127.0.0.1", 0});
    EXPECT_OK(listener);
    listener_ = *listener;
    on_loop(*loop_, [&] {
      listener_->start([&](asio::ip::tcp::socket socket) {
        server_.connection = Connection::accepted(std::move(socket), server_.events());
        accepted_.set_value();
      });
      client_.connection = Connection::connect(*loop_, listener_->address(), client_.events());
    });
    accepted_.get_future().wait();
    client_.open.get_future().wait();
  }
  ~ConnectionTest() override { loop_->stop(); }

  const size_t inherited_before_ = inherited_sockets();
  std::unique_ptr<Loop> loop_;
  std::shared_ptr<Listener> listener_;
  std::promise<void> accepted_;
  End server_;
  End client_;
};

TEST_F(ConnectionTest, CarriesFramesBothWays) {
  const std::string large(3U << 20, 'x');
  on_loop(*loop_, [&] {
    server_.connection->set_frame_max(large.size());
    client_.connection->send(large);
    server_.connection->send("short");
  });
  EXPECT_EQ(server_.frame.get_future().get(), large);
  EXPECT_EQ(client_.frame.get_future().get(), "short");
}

TEST_F(ConnectionTest, TheOtherSideSeesItsEndAndItsOwnSideDoesNot) {
  on_loop(*loop_, [&] {
    client_.connection->send("last words");
    client_.connection->close();
    client_.connection->send("unheard");
  });
  EXPECT_EQ(server_.frame.get_future().get(), "last words");
  EXPECT_FAILS(server_.closed.get_future().get(), StatusCode::kUnavailable, "it closed");
  auto closed = client_.closed.get_future();
  EXPECT_EQ(closed.wait_for(0s), std::future_status::timeout);
}

TEST_F(ConnectionTest, AFrameThatIsTooLongEndsIt) {
  on_loop(*loop_, [&] {
    server_.connection->set_frame_max(4);
    client_.connection->send("12345");
  });
  EXPECT_FAILS(server_.closed.get_future().get(), StatusCode::kCorrupt, "at most 4");
  EXPECT_FAILS(client_.closed.get_future().get(), StatusCode::kUnavailable, "127.0.0.1");
}

// A child that lives on does not keep the connection of its parent open.
TEST_F(ConnectionTest, AForkedChildHasNoPartInIt) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    pause();
    _exit(0);
  }
  on_loop(*loop_, [&] { client_.connection->close(); });
  EXPECT_FAILS(server_.closed.get_future().get(), StatusCode::kUnavailable, "it closed");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// popen does not call the handlers of fork().
TEST_F(ConnectionTest, AProgramThatIsStartedHasNoPartInIt) {
  EXPECT_EQ(inherited_sockets(), inherited_before_);
}

// A name has three addresses: one refuses, one does not answer, and the last is the server.
TEST_F(ConnectionTest, AllThatANameStandsForIsTriedInTheTimeForOne) {
  const auto loopback = asio::ip::make_address("127.0.0.1");
  ASSERT_OK_AND_ASSIGN(const auto gone, Listener::open(*loop_, {"127.0.0.1", 0}));
  const asio::ip::tcp::endpoint refuses(loopback, gone->address().port);
  on_loop(*loop_, [&] { gone->close(); });
  // It accepts nothing, and connections beyond its queue get no answer.
  asio::io_context context;
  asio::ip::tcp::acceptor full(context, {loopback, 0}, true);
  full.listen(0);
  std::vector<asio::ip::tcp::socket> queue;
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(context, asio::ip::tcp::v4());
    queue.back().native_non_blocking(true);
    // Calls connect(2), since asio's call would wait.
    static_cast<void>(::connect(queue.back().native_handle(), full.local_endpoint().data(),
                                static_cast<socklen_t>(full.local_endpoint().size())));
  }
  ASSERT_OK_AND_ASSIGN(const auto other, Listener::open(*loop_, {"127.0.0.1", 0}));
  End accepted;
  on_loop(*loop_, [&] {
    other->start([&](asio::ip::tcp::socket socket) {
      accepted.connection = Connection::accepted(std::move(socket), accepted.events());
    });
  });
  const asio::ip::tcp::endpoint server(loopback, other->address().port);
  const Time start = std::chrono::steady_clock::now();
  End end;
  on_loop(*loop_, [&] {
    end.connection = Connection::connect(*loop_, other->address(),
                                         {refuses, full.local_endpoint(), server}, end.events());
  });
  ASSERT_EQ(end.open.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_GE(std::chrono::steady_clock::now() - start, Duration(base::kStoreHandshakeMax) / 3);
  End nobody;
  on_loop(*loop_, [&] {
    nobody.connection =
        Connection::connect(*loop_, {"host", 1}, {refuses, refuses}, nobody.events());
  });
  EXPECT_FAILS(nobody.closed.get_future().get(), StatusCode::kUnavailable, "connect to 'host:1'");
  on_loop(*loop_, [&] { other->close(); });
  loop_->stop();
}

TEST_F(ConnectionTest, WithoutADescriptorItIsExhausted) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  End end;
  {
    const testing::LowLimit none(RLIMIT_NOFILE, testing::next_descriptor());
    on_loop(*loop_, [&] {
      end.connection = Connection::connect(*loop_, listener_->address(), end.events());
    });
    EXPECT_FAILS(end.closed.get_future().get(), StatusCode::kExhausted, "ulimit -n");
  }
  loop_->stop();
}

TEST_F(ConnectionTest, NobodyThereIsSaid) {
  const Address address = listener_->address();
  End end;
  on_loop(*loop_, [&] { listener_->close(); });
  on_loop(*loop_, [&] { end.connection = Connection::connect(*loop_, address, end.events()); });
  EXPECT_FAILS(end.closed.get_future().get(), StatusCode::kUnavailable, address.text());
  End nowhere;
  on_loop(*loop_, [&] {
    nowhere.connection = Connection::connect(*loop_, {"no such host", 1}, nowhere.events());
  });
  EXPECT_FAILS(nowhere.closed.get_future().get(), StatusCode::kUnavailable, "no such host");
  loop_->stop();
}

}  // namespace
}  // namespace ffdl::net
