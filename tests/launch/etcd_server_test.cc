#include "launch/etcd_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include "net/certificate_authority.h"
#include "net/certificate_files.h"
#include "support/etcd_server.h"
#include "support/free_port.h"
#include "support/private_files.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;
using testing::running_programs;

class JobEtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
    auto authority = net::CertificateAuthority::of("secret", "test");
    ASSERT_OK(authority);
    ASSERT_OK_AND_ASSIGN(const net::Certificate client, authority->issue("client", {}));
    ASSERT_OK_AND_ASSIGN(const net::Certificate server, authority->issue("server", {"127.0.0.1"}));
    folder_.write(net::kAuthorityFile, authority->certificate());
    folder_.write(net::kClientFile, client.certificate);
    folder_.write(net::kClientKeyFile, client.key);
    folder_.write(net::kServerFile, server.certificate);
    folder_.write(net::kServerKeyFile, server.key);
    options_.name = "one";
    options_.folder = folder_.path();
    options_.client_address = "127.0.0.1:" + std::to_string(testing::free_port());
    options_.peer_address = "127.0.0.1:" + std::to_string(testing::free_port());
    options_.cluster = "one=https://" + options_.peer_address;
    options_.token = "token";
  }
  std::vector<pid_t> etcds() const {
    return running_programs("--data-dir=" + folder_.path() + "/data");
  }
  std::unique_ptr<Store> open() const {
    std::unique_ptr<Store> store;
    EXPECT_TRUE(comes_true([&] {
      auto opened =
          open_store("etcd://" + options_.client_address + "?certificates=" + folder_.path(),
                     system_runtime(), {.operation_timeout = 2s});
      if (opened.ok()) store = std::move(opened).value();
      return store != nullptr;
    }));
    return store;
  }

  const TempFolder folder_;
  EtcdServerOptions options_;
};

TEST_F(JobEtcdTest, OneThatDiesIsStartedAgainWithItsData) {
  ASSERT_OK_AND_ASSIGN(auto server, EtcdServer::start(options_));
  const auto store = open();
  ASSERT_NE(store, nullptr);
  ASSERT_OK(store->put("k", "v"));
  const std::vector<pid_t> first = etcds();
  ASSERT_EQ(first.size(), 1U);
  kill(first.front(), SIGKILL);
  EXPECT_TRUE(comes_true([&] {
    const std::vector<pid_t> next = etcds();
    return next.size() == 1 && next != first;
  }));
  EXPECT_TRUE(comes_true([&] {
    const auto entry = store->get("k");
    return entry.ok() && entry->value == "v";
  }));
  EXPECT_NE(server->last_line(), "");
  server.reset();
  EXPECT_EQ(etcds(), std::vector<pid_t>());
}

TEST_F(JobEtcdTest, OneThatCannotBeginIsTriedAgainAndEndsAtOnce) {
  options_.token.clear();
  options_.cluster = "another=https://" + options_.peer_address;  // which etcd refuses
  ASSERT_OK_AND_ASSIGN(auto server, EtcdServer::start(options_));
  EXPECT_TRUE(comes_true([&] { return server->last_line().find("one") != std::string::npos; }))
      << server->last_line();
  const Time begin = deadline_in({});
  server.reset();
  EXPECT_LT(deadline_in({}) - begin, 30s);
  EXPECT_EQ(etcds(), std::vector<pid_t>());
}

}  // namespace
}  // namespace ffdl::launch
