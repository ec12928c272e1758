#include "store/etcd/watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/scripted_server.h"
#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using ::ffdl::testing::ScriptedServer;

constexpr const char* kCreated = R"({"result":{"header":{"revision":"5"},"created":true}})"
                                 "\n";

std::string change_at(int revision) {
  return R"({"result":{"events":[{"kv":{"key":"YQ==","mod_revision":")" + std::to_string(revision) +
         "\"}}]}}\n";
}

EtcdLink link_to(const ScriptedServer& server) {
  return EtcdLink({.endpoints = {{"127.0.0.1", static_cast<uint16_t>(server.port())}},
                   .operation_timeout = 10s},
                  system_runtime());
}

bool begins_at(const std::string& request, int revision) {
  return request.find("\"start_revision\":\"" + std::to_string(revision) + "\"") !=
         std::string::npos;
}

TEST(EtcdWatch, TellsWhatChangedAfterARevision) {
  ScriptedServer server([](const std::string& request, auto& peer) {
    EXPECT_TRUE(begins_at(request, 6)) << request;
    peer.begin();
    peer.part(kCreated);
    peer.part(change_at(7).substr(0, 20));              // a line may arrive in parts,
    peer.part(change_at(7).substr(20) + change_at(9));  // and two may arrive at once
    peer.hang();
    return false;
  });
  EtcdLink link = link_to(server);
  EtcdWatch watch(link, system_runtime(), "a", 5);
  EXPECT_EQ(watch.wait(8, deadline_in(60s)), 9U);
  EXPECT_EQ(watch.wait(5, Time::min()), 9U);
  EXPECT_EQ(watch.wait(9, deadline_in(5ms)), std::nullopt);
}

TEST(EtcdWatch, ABrokenStreamIsBegunAgainWhereItEnded) {
  std::atomic<int> streams{0};
  ScriptedServer server([&](const std::string& request, auto& peer) {
    peer.begin();
    if (++streams == 1) {
      peer.part(kCreated + change_at(7));
      return false;
    }
    EXPECT_TRUE(begins_at(request, 8)) << request;
    peer.part(kCreated + change_at(8));
    peer.hang();
    return false;
  });
  EtcdLink link = link_to(server);
  EtcdWatch watch(link, system_runtime(), "a", 5);
  EXPECT_EQ(watch.wait(7, deadline_in(60s)), 8U);
}

TEST(EtcdWatch, WhatEtcdHasForgottenCountsAsAChange) {
  std::atomic<int> streams{0};
  ScriptedServer server([&](const std::string& request, auto& peer) {
    peer.begin();
    peer.part(kCreated);
    if (++streams == 1) {
      peer.part("{\"result\":{\"canceled\":true,\"compact_revision\":\"30\"}}\n");
    } else {
      EXPECT_TRUE(begins_at(request, 31)) << request;
    }
    peer.hang();
    return false;
  });
  EtcdLink link = link_to(server);
  EtcdWatch watch(link, system_runtime(), "a", 5);
  EXPECT_EQ(watch.wait(5, deadline_in(60s)), 30U);
  EXPECT_EQ(watch.wait(30, deadline_in(5ms)), std::nullopt);
}

// Each of these texts ends a stream, and the next stream works.
TEST(EtcdWatch, AnEtcdThatIsIllIsLeftAndAskedAgain) {
  const std::string endless(9U << 20, ' ');
  for (const std::string& ill :
       {std::string("{\"error\":{\"message\":\"etcdserver: no leader\"}}\n"),
        std::string("{\"result\":{\"canceled\":true,\"cancel_reason\":\"x\"}}\n"),
        std::string("<html>\n"), endless}) {
    std::atomic<int> streams{0};
    ScriptedServer server([&](const std::string& request, auto& peer) {
      EXPECT_TRUE(begins_at(request, 6)) << request;
      peer.begin();
      peer.part(++streams == 1 ? ill : kCreated + change_at(6));
      peer.hang();
      return false;
    });
    EtcdLink link = link_to(server);
    EtcdWatch watch(link, system_runtime(), "a", 5);
    EXPECT_EQ(watch.wait(5, deadline_in(60s)), 6U);
  }
}

TEST(EtcdWatch, EndsWhileNobodyAnswers) {
  ScriptedServer server([](const std::string&, auto& peer) {
    peer.hang();
    return false;
  });
  EtcdLink link = link_to(server);
  for (int i = 0; i < 20; ++i) EtcdWatch(link, system_runtime(), "a", 5);
}

TEST(EtcdWatch, ManyWaitAtOnce) {
  std::atomic<bool> go{false};
  ScriptedServer server([&](const std::string&, auto& peer) {
    peer.begin();
    peer.part(kCreated);
    while (!go) std::this_thread::yield();
    peer.part(change_at(6));
    peer.hang();
    return false;
  });
  EtcdLink link = link_to(server);
  EtcdWatch watch(link, system_runtime(), "a", 5);
  std::vector<std::thread> waiters;
  std::atomic<int> told{0};
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&] { told += watch.wait(5, deadline_in(60s)) == 6U ? 1 : 0; });
  }
  go = true;
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(told.load(), 8);
}

}  // namespace
}  // namespace ffdl::store
