#include "store/etcd/link.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "base/errors.h"
#include "support/fork_child.h"
#include "support/scripted_server.h"
#include "support/silent_port.h"
#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using ::ffdl::testing::ScriptedServer;
using ::ffdl::testing::SilentPort;

net::Address at(int port) { return {"127.0.0.1", static_cast<uint16_t>(port)}; }

// Counts its requests, and answers each by the script.
struct Counted {
  explicit Counted(ScriptedServer::Script script)
      : server([this, script = std::move(script)](const std::string& request, auto& peer) {
          ++asked;
          return script(request, peer);
        }) {}
  std::atomic<int> asked{0};
  ScriptedServer server;
};

bool answer_ok(const std::string&, ScriptedServer::Peer& peer) {
  peer.answer("ok");
  return true;
}

Status read_ok(std::string_view body) {
  return body == "ok" ? Status() : base::make_error(StatusCode::kCorrupt, "not ok");
}

Status ask(EtcdLink& link, bool changes) {
  return link.call({.path = "/x", .body = "{}", .what = "put 'k'", .changes = changes}, read_ok);
}

TEST(EtcdLink, WhoIsNotThereIsPassedOver) {
  Counted good(answer_ok);
  const SilentPort one;
  const SilentPort other;
  for (int i = 0; i < 8; ++i) {  // it starts at any endpoint
    EtcdLink link({.endpoints = {at(one.port()), at(good.server.port()), at(other.port())},
                   .operation_timeout = 60s},
                  system_runtime());
    EXPECT_OK(ask(link, true));
    EXPECT_OK(ask(link, true));
    EXPECT_EQ(link.member().address, at(good.server.port()));
  }
  EXPECT_EQ(good.asked.load(), 16);
}

TEST(EtcdLink, NobodyThereMeansThatNothingHappened) {
  const SilentPort one;
  const SilentPort other;
  EtcdLink link({.endpoints = {at(one.port()), at(other.port())}, .operation_timeout = 50ms},
                system_runtime());
  EXPECT_FAILS(ask(link, true), StatusCode::kUnavailable, "did not answer for 50 ms");
}

// Each of these servers may have executed the request.
const std::vector<ScriptedServer::Script> kDoubtful = {
    [](const std::string&, ScriptedServer::Peer&) { return false; },
    [](const std::string&, ScriptedServer::Peer& peer) {
      peer.answer("<html>");
      return true;
    },
    [](const std::string&, ScriptedServer::Peer& peer) {
      peer.answer("<html>", "502 Bad Gateway");
      return true;
    },
    [](const std::string&, ScriptedServer::Peer& peer) {
      peer.answer(R"({"message":"etcdserver: request timed out","code":14})", "503 No");
      return true;
    },
};

TEST(EtcdLink, AChangeWhoseAnswerIsLostIsNotRepeated) {
  for (const auto& script : kDoubtful) {
    Counted bad(script);
    EtcdLink link({.endpoints = {at(bad.server.port())}, .operation_timeout = 60s},
                  system_runtime());
    EXPECT_FAILS(ask(link, true), StatusCode::kTimeout, "whether the call took effect is unknown");
    EXPECT_EQ(bad.asked.load(), 1);
  }
}

TEST(EtcdLink, WhatCanBeRepeatedIsAskedOfTheNext) {
  for (const auto& script : kDoubtful) {
    Counted bad(script);
    Counted good(answer_ok);
    EtcdLink link(
        {.endpoints = {at(bad.server.port()), at(good.server.port())}, .operation_timeout = 60s},
        system_runtime());
    EXPECT_OK(ask(link, false));
    EXPECT_EQ(good.asked.load(), 1);
  }
}

TEST(EtcdLink, OneThatHangsDoesNotTakeAllTheTime) {
  Counted bad([](const std::string&, ScriptedServer::Peer& peer) {
    peer.hang();
    return false;
  });
  Counted good(answer_ok);
  EtcdLink link(
      {.endpoints = {at(bad.server.port()), at(good.server.port())}, .operation_timeout = 4s},
      system_runtime());
  EXPECT_OK(ask(link, false));
  EXPECT_OK(ask(link, true));
  EXPECT_EQ(good.asked.load(), 2);
}

TEST(EtcdLink, WhatEtcdSaysIsNotAskedAgain) {
  Counted full([](const std::string&, ScriptedServer::Peer& peer) {
    peer.answer(R"({"message":"etcdserver: mvcc: database space exceeded","code":8})", "429 No");
    return true;
  });
  EtcdLink link({.endpoints = {at(full.server.port())}, .operation_timeout = 60s},
                system_runtime());
  EXPECT_FAILS(ask(link, true), StatusCode::kExhausted, "put 'k': etcd reports");
  EXPECT_EQ(full.asked.load(), 1);
}

TEST(EtcdLink, AForkedChildIsToldToOpenItsOwn) {
  const SilentPort nobody;
  EtcdLink link({.endpoints = {at(nobody.port())}, .operation_timeout = 60s}, system_runtime());
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(ask(link, false).code() == StatusCode::kCancelled ? 0 : 1);
  int outcome = -1;
  waitpid(child, &outcome, 0);
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace ffdl::store
