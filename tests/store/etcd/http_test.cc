#include "store/etcd/http.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "support/scripted_server.h"
#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using ::ffdl::testing::ScriptedServer;

EtcdHttp connect(const ScriptedServer& server) {
  return EtcdHttp({"127.0.0.1", static_cast<uint16_t>(server.port())}, system_runtime());
}

TEST(EtcdHttp, OneConnectionCarriesManyRequests) {
  std::atomic<int> last{0};
  ScriptedServer server([&, requests = 0](const std::string& request, auto& peer) mutable {
    last = ++requests;
    peer.answer(request.substr(0, request.find(' ')) +
                request.substr(request.find("\r\n\r\n") + 4));
    return true;
  });
  EtcdHttp http = connect(server);
  EXPECT_EQ(http.ask("/a", "body", deadline_in(10s))->body, "POSTbody");
  EXPECT_EQ(http.ask("/a", "", deadline_in(10s))->body, "GET");
  EXPECT_EQ(last.load(), 2);
}

TEST(EtcdHttp, AFailureThatEndsWithATrailerIsAnAnswer) {
  ScriptedServer server([&](const std::string&, auto& peer) {
    peer.send(
        "HTTP/1.1 404 Not Found\r\nTrailer: Grpc-Trailer-Content-Type\r\n"
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
        "Grpc-Trailer-Content-Type: application/grpc\r\n\r\n");
    return true;
  });
  EtcdHttp http = connect(server);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const EtcdHttp::Answer answer, http.ask("/a", "b", deadline_in(10s)));
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.body, "{}");
  }
}

TEST(EtcdHttp, WhatWasNotSentDidNotHappen) {
  EtcdHttp http({"127.0.0.1", 1}, system_runtime());
  EXPECT_FAILS(http.ask("/a", "b", deadline_in(10s)), StatusCode::kUnavailable, "'127.0.0.1:1'");
  EXPECT_FAILS(http.stream("/a", "b", [](std::string_view) { return true; }),
               StatusCode::kUnavailable, "'127.0.0.1:1'");
}

TEST(EtcdHttp, WhoseAnswerIsLostMayHaveHappened) {
  for (const char* text : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "SSH-2.0-x\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    ScriptedServer server([&](const std::string&, auto& peer) {
      peer.send(text);
      return false;
    });
    EtcdHttp http = connect(server);
    EXPECT_FAILS(http.ask("/a", "b", deadline_in(10s)), StatusCode::kTimeout, "127.0.0.1");
  }
}

TEST(EtcdHttp, WhoDoesNotAnswerIsLeftAtTheDeadline) {
  ScriptedServer silent([](const std::string&, auto& peer) {
    peer.hang();
    return false;
  });
  EXPECT_FAILS(connect(silent).ask("/a", "b", deadline_in(50ms)), StatusCode::kTimeout, "call '");
  // Answers all the time, but never completes an answer.
  ScriptedServer endless([](const std::string&, auto& peer) {
    peer.begin();
    std::atomic<bool> gone{false};
    std::thread reader([&] {
      peer.hang();
      gone = true;
    });
    while (!gone) peer.part("and ");
    reader.join();
    return false;
  });
  EXPECT_FAILS(connect(endless).ask("/a", "b", deadline_in(50ms)), StatusCode::kTimeout, "call '");
}

// Sends a request larger than the sockets hold, to a server that does not read it. Writing to a
// connection that was shut down raises a signal.
TEST(EtcdHttp, StoppedInTheMiddleOfARequestItDoesNotEndThisProcess) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  EtcdHttp http({"127.0.0.1", ntohs(address.sin_port)}, system_runtime());
  signal(SIGPIPE, SIG_DFL);  // whatever disposition was inherited
  const auto ended = system_runtime().make_event();
  Status outcome;
  int pending_signals = -1;
  std::thread writer([&] {
    outcome = http.stream("/a", std::string(64U << 20, 'x'), [](std::string_view) { return true; });
    sigset_t pending;
    sigpending(&pending);
    pending_signals = sigismember(&pending, SIGPIPE);
    ended->set();
  });
  while (!ended->wait_until(deadline_in(5ms))) http.stop();
  writer.join();
  EXPECT_FAILS(outcome, StatusCode::kUnavailable, "call '");
  EXPECT_EQ(pending_signals, 0);
  close(listener);
}

TEST(EtcdHttp, AStreamIsHandedOnAsItComesUntilItIsStopped) {
  ScriptedServer server([](const std::string&, auto& peer) {
    peer.begin();
    peer.part("one");
    peer.hang();
    return false;
  });
  EtcdHttp http = connect(server);
  const auto came = system_runtime().make_event();
  Status ended;
  std::thread reader([&] {
    ended = http.stream("/a", "b", [&](std::string_view bytes) {
      EXPECT_EQ(bytes, "one");
      came->set();
      return true;
    });
  });
  EXPECT_TRUE(came->wait_until(deadline_in(10s)));
  http.stop();
  reader.join();
  EXPECT_EQ(ended.code(), StatusCode::kPeerLost);
}

}  // namespace
}  // namespace ffdl::store
