#include "launch/etcd_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "net/certificate_authority.h"
#include "net/certificate_files.h"
#include "support/etcd_server.h"
#include "support/private_files.h"
#include "support/put_under_lease.h"
#include "support/ranks.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;
using testing::on_threads;
using testing::running_programs;

class EtcdClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
    auto opened = open_store("mem://", system_runtime());
    ASSERT_OK(opened);
    store_ = std::move(opened).value();
  }
  EtcdClusterOptions options(int node, int members) const {
    return {.job = "job",
            .secret = "of this job",
            .folder = folder_of(node),
            .members = members,
            .founds = node == 0};
  }
  std::string folder_of(int node) const { return folder_.file("node-" + std::to_string(node)); }
  // Joins with so many nodes at once, which all use one store.
  std::vector<std::unique_ptr<EtcdCluster>> join(int nodes, int members) {
    std::vector<std::unique_ptr<EtcdCluster>> all(static_cast<size_t>(nodes));
    on_threads(nodes, [&](int node) {
      auto joined = EtcdCluster::join(*store_, options(node, members));
      ASSERT_OK(joined);
      all[static_cast<size_t>(node)] = std::move(joined).value();
    });
    return all;
  }
  // Returns the processes of the etcd of that node.
  std::vector<pid_t> etcds_of(int node) const {
    return running_programs("--data-dir=" + folder_of(node) + "/");
  }

  const TempFolder folder_;
  std::unique_ptr<Store> store_;
};

std::unique_ptr<Store> open_cluster(const EtcdCluster& cluster) {
  auto opened = open_store(cluster.url(), system_runtime(), {.operation_timeout = 20s});
  EXPECT_OK(opened);
  return opened.ok() ? std::move(opened).value() : nullptr;
}

TEST_F(EtcdClusterTest, OneServesTheJobAndLeavesNothing) {
  auto all = join(1, 1);
  ASSERT_NE(all.front(), nullptr);
  EXPECT_TRUE(all.front()->runs_etcd());
  const auto store = open_cluster(*all.front());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const Revision before, store->wait_change("k", 0, kNoDeadline));
  ASSERT_OK(store->put("k", "v"));
  EXPECT_OK(store->wait_change("k", before, deadline_in(60s)));
  EXPECT_EQ(store->get("k")->value, "v");
  EXPECT_EQ(etcds_of(0).size(), 1U);
  EXPECT_EQ(testing::files_of_others(folder_of(0)), std::vector<std::string>());
  all.clear();
  EXPECT_TRUE(comes_true([&] { return etcds_of(0).empty(); }));
  EXPECT_FALSE(std::filesystem::exists(folder_of(0)));
}

TEST_F(EtcdClusterTest, AStrangerGetsNothing) {
  const auto all = join(1, 1);
  ASSERT_NE(all.front(), nullptr);
  const std::string url = all.front()->url();
  const std::string place = url.substr(0, url.find('?'));
  const StoreOptions soon{.operation_timeout = 1s};
  EXPECT_FAILS(open_store(place, system_runtime(), soon), StatusCode::kUnavailable, "");
  // A certificate of another authority, with which it even trusts the server's.
  ASSERT_OK_AND_ASSIGN(auto other, net::CertificateAuthority::of("guessed", "etcd of job"));
  ASSERT_OK_AND_ASSIGN(const net::Certificate client, other.issue("client", {}));
  std::filesystem::copy(folder_of(0) + "/" + net::kAuthorityFile,
                        folder_.file(net::kAuthorityFile));
  folder_.write(net::kClientFile, client.certificate);
  folder_.write(net::kClientKeyFile, client.key);
  EXPECT_FAILS(open_store(place + "?certificates=" + folder_.path(), system_runtime(), soon),
               StatusCode::kUnavailable, "did not answer");
  // A server of another authority gets nothing of a member.
  std::filesystem::remove(folder_.file(net::kAuthorityFile));
  folder_.write(net::kAuthorityFile, other.certificate());
  for (const char* const name : {net::kClientFile, net::kClientKeyFile}) {
    std::filesystem::copy_file(folder_of(0) + "/" + name, folder_.file(name),
                               std::filesystem::copy_options::overwrite_existing);
  }
  const std::string as_stranger = place + "?certificates=" + folder_.path();
  Status refused;  // on a busy machine the time may be over before etcd refuses
  EXPECT_TRUE(comes_true([&] {
    refused = open_store(as_stranger, system_runtime(), soon).status();
    return refused.message().find("SSL") != std::string_view::npos;
  })) << refused.to_string();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_NE(open_cluster(*all.front()), nullptr);
}

// The first three have an etcd each; the fourth is a client.
TEST_F(EtcdClusterTest, ThreeSurviveTheLossOfTheFirst) {
  auto all = join(4, 3);
  int etcds = 0;
  for (const auto& one : all) {
    ASSERT_NE(one, nullptr);
    etcds += one->runs_etcd();
  }
  EXPECT_EQ(etcds, 3);
  EXPECT_TRUE(all[0]->runs_etcd()) << "node 0 serves the rendezvous, and has the first";
  const auto store = open_cluster(*all[3]);
  ASSERT_NE(store, nullptr);
  ASSERT_OK(store->put("k", "before"));
  all[0].reset();
  EXPECT_TRUE(comes_true([&] { return store->put("k", "after").ok(); }));
  EXPECT_EQ(store->get("k")->value, "after");
}

TEST_F(EtcdClusterTest, TooFewAreReported) {
  EtcdClusterOptions alone = options(0, 3);
  alone.patience = 100ms;
  EXPECT_FAILS(EtcdCluster::join(*store_, alone), StatusCode::kTimeout,
               "1 of 3 nodes with the program etcd have started");
  EXPECT_FALSE(std::filesystem::exists(alone.folder));
}

TEST_F(EtcdClusterTest, TheFounderNeedsTheProgram) {
  EtcdClusterOptions alone = options(0, 1);
  alone.program = "no-such-etcd";
  EXPECT_FAILS(EtcdCluster::join(*store_, alone), StatusCode::kNotFound, "apt-get install");
  EXPECT_FALSE(std::filesystem::exists(alone.folder));
}

TEST_F(EtcdClusterTest, ANodeWithoutTheProgramIsAClient) {
  EtcdClusterOptions without = options(1, 2);
  without.program = "no-such-etcd";
  std::unique_ptr<EtcdCluster> client;
  std::thread first([&] {
    auto joined = EtcdCluster::join(*store_, without);
    ASSERT_OK(joined);
    client = std::move(joined).value();
  });
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(without.folder); }));
  std::vector<std::unique_ptr<EtcdCluster>> others(2);
  on_threads(2, [&](int at) {
    auto one = EtcdCluster::join(*store_, options(2 * at, 2));
    ASSERT_OK(one);
    others[static_cast<size_t>(at)] = std::move(one).value();
  });
  first.join();
  ASSERT_NE(client, nullptr);
  EXPECT_FALSE(client->runs_etcd());
  EXPECT_NE(open_cluster(*client), nullptr);
}

// A node that dies before the others come leaves a place whose lease ends.
TEST_F(EtcdClusterTest, ThePlaceOfADeadNodeIsTaken) {
  const auto dead_one = testing::put_under_lease(
      *store_, "ffdl/job/etcd/members/1", 1s, R"({"client":"127.0.0.1:1","peer":"127.0.0.1:2"})");
  ASSERT_OK(dead_one.revision);
  const auto dead_two = testing::put_under_lease(
      *store_, "ffdl/job/etcd/members/2", 1s, R"({"client":"127.0.0.1:3","peer":"127.0.0.1:4"})");
  ASSERT_OK(dead_two.revision);
  std::unique_ptr<EtcdCluster> joined[3];
  // Node 0 would begin with the dead nodes, so it comes when their leases have ended.
  std::thread others([&] {
    on_threads(2, [&](int at) {
      auto one = EtcdCluster::join(*store_, options(at + 1, 3));
      ASSERT_OK(one);
      joined[at + 1] = std::move(one).value();
    });
  });
  ASSERT_TRUE(comes_true([&] {
    const auto entry = store_->get("ffdl/job/etcd/members/2");
    return entry.ok() && entry->lease != dead_two.lease;
  }));
  auto first = EtcdCluster::join(*store_, options(0, 3));
  others.join();
  ASSERT_OK(first);
  EXPECT_TRUE(joined[1] != nullptr && joined[1]->runs_etcd());
  EXPECT_TRUE(joined[2] != nullptr && joined[2]->runs_etcd());
}

// The record of a run that was killed names an etcd that does not answer.
TEST_F(EtcdClusterTest, TheRecordOfAKilledRunIsForgotten) {
  ASSERT_OK(
      store_->put("ffdl/job/etcd/cluster",
                  R"({"token":"old","members":[{"client":"127.0.0.1:1","peer":"127.0.0.1:2"}]})"));
  const auto all = join(2, 1);
  for (const auto& one : all) ASSERT_NE(one, nullptr);
  EXPECT_TRUE(all[0]->runs_etcd());
  EXPECT_EQ(all[1]->url().substr(0, all[1]->url().find('?')),
            all[0]->url().substr(0, all[0]->url().find('?')));
}

}  // namespace
}  // namespace ffdl::launch
