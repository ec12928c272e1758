#include "comm/api/introduction.h"

#include <gtest/gtest.h>

#include "comm/network/links.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

const Introduction kHere = {Backend::kAuto, true, false, {"boot/1/0", "boot/7", "boot/4"}};
const Introduction kContainer = {Backend::kAuto, true, false, {"boot/2/0", "boot/7", "boot/5"}};
const Introduction kOtherHost = {Backend::kAuto, true, false, {"other/1/0", "other/7", "other/4"}};

Introduction with(Introduction introduction, Backend backend, bool loopback = true) {
  introduction.backend = backend;
  introduction.loopback = loopback;
  return introduction;
}

Status check(const std::vector<Introduction>& members) {
  const auto ranks = static_cast<int>(members.size());
  const World world = {1, 0, testing::members_named(ranks)};
  const Status agreed = check_agreement(world, members);
  return agreed.ok() ? check_reach(world, members) : agreed;
}

TEST(Introduction, ComesBackFromItsRecord) {
  for (const Backend backend : {Backend::kAuto, Backend::kShm, Backend::kTcp, Backend::kGloo,
                                Backend::kHierarchical, Backend::kNccl, Backend::kDeviceShm}) {
    for (const bool loopback : {true, false}) {
      const Introduction given = with(kContainer, backend, loopback);
      ASSERT_OK_AND_ASSIGN(const Introduction got, from_record(to_record(given)));
      EXPECT_EQ(got.backend, backend);
      EXPECT_EQ(got.loopback, loopback);
      EXPECT_FALSE(got.tls);
      EXPECT_EQ(got.host.memory, given.host.memory);
      EXPECT_EQ(got.host.network, given.host.network);
      EXPECT_EQ(got.host.processes, given.host.processes);
      EXPECT_EQ(got.job, "");
    }
  }
  Introduction of_a_job = kHere;
  of_a_job.job = "a";
  of_a_job.tls = true;
  ASSERT_OK_AND_ASSIGN(const Introduction got, from_record(to_record(of_a_job)));
  EXPECT_EQ(got.job, "a");
  EXPECT_TRUE(got.tls);
}

TEST(Introduction, AMemberOfAnotherJobIsRefusedByName) {
  Introduction stranger = kHere;
  stranger.job = "b";
  EXPECT_FAILS(check({kHere, stranger}), StatusCode::kCorrupt,
               "connect generation 1: rank 1 'm1' is of job 'b'");
  Introduction own = kHere;
  own.job = "a";
  const World world = {.generation = 1, .members = testing::members_named(2), .job = "a"};
  EXPECT_FAILS(check_agreement(world, {own, stranger}), StatusCode::kCorrupt,
               "connect generation 1 of job 'a': rank 1 'm1' is of job 'b'");
  EXPECT_OK(check_agreement(world, {own, own}));
}

TEST(Introduction, WhatIsNoneIsCorrupt) {
  const std::string whole = to_record(kHere);
  for (const std::string& record :
       {std::string(), std::string("auto"), std::string("shm x y z p"),
        whole.substr(0, whole.rfind(' ')), whole + "one more", whole + " ", whole + "a/b"}) {
    EXPECT_FAILS(from_record(record), StatusCode::kCorrupt, "not an introduction");
  }
}

TEST(Introduction, HostsAreCountedInTheOrderOfRanks) {
  EXPECT_EQ(hosts_of({kHere, kHere}), (std::vector<int>{0, 0}));
  EXPECT_EQ(hosts_of({kHere, kOtherHost, kContainer, kOtherHost, kHere}),
            (std::vector<int>{0, 1, 2, 1, 0}));
}

TEST(Introduction, MembersThatWantDifferentBackendsAreToldWhoAndWhat) {
  EXPECT_FAILS(check({kHere, kHere, with(kHere, Backend::kGloo)}), StatusCode::kInvalidArgument,
               "rank 0 'm0' wants backend auto, rank 2 'm2' wants gloo");
}

TEST(Introduction, AllOrNoneEncrypt) {
  Introduction tls = kHere;
  tls.tls = true;
  EXPECT_OK(check({tls, tls}));
  EXPECT_FAILS(check({kHere, kHere, tls}), StatusCode::kInvalidArgument,
               "rank 2 'm2' encrypts its connections, rank 0 'm0' does not; set FFDL_TLS=1");
  EXPECT_FAILS(check({tls, kHere}), StatusCode::kInvalidArgument,
               "rank 0 'm0' encrypts its connections, rank 1 'm1' does not");
}

TEST(Introduction, BackEndsWithoutEncryptionRefuseIt) {
  Introduction here = with(kHere, Backend::kGloo);
  here.tls = true;
  EXPECT_FAILS(check({here, here}), StatusCode::kInvalidArgument,
               "the backend gloo does not encrypt its connections between hosts");
  here.backend = Backend::kNccl;
  EXPECT_OK(check({here, here}));
  Introduction other = with(kOtherHost, Backend::kNccl);
  other.tls = true;
  EXPECT_FAILS(check({here, other}), StatusCode::kInvalidArgument,
               "the backend nccl does not encrypt its connections between hosts");
}

TEST(Introduction, SharedMemoryNeedsOneHost) {
  EXPECT_OK(check({kHere, kHere}));
  EXPECT_OK(check({with(kHere, Backend::kShm), with(kHere, Backend::kShm)}));
  EXPECT_OK(check({with(kHere, Backend::kNccl), with(kHere, Backend::kNccl)}));
  EXPECT_FAILS(check({with(kHere, Backend::kShm), with(kContainer, Backend::kShm)}),
               StatusCode::kInvalidArgument, "rank 0 'm0' and rank 1 'm1' share no memory");
}

TEST(Introduction, TheMemoryOfGpusNeedsOneHostAndOneNetwork) {
  const Introduction here = with(kHere, Backend::kDeviceShm);
  Introduction apart = here;
  apart.host.network = "boot/8";
  EXPECT_OK(check({here, here}));
  EXPECT_FAILS(check({here, with(kOtherHost, Backend::kDeviceShm)}), StatusCode::kInvalidArgument,
               "rank 0 'm0' and rank 1 'm1' share no memory; use the backend nccl");
  EXPECT_FAILS(check({here, apart}), StatusCode::kInvalidArgument,
               "rank 0 'm0' and rank 1 'm1' are in different network namespaces");
}

TEST(Introduction, SeveralHostsNeedAddressesUnlessTheyShareALoopback) {
  EXPECT_OK(check({kHere, kContainer}));
  const Introduction reachable = with(kHere, Backend::kAuto, false);
  EXPECT_FAILS(check({reachable, kOtherHost}), StatusCode::kInvalidArgument,
               "rank 1 'm1' has no address that other hosts can reach");
  EXPECT_OK(check({reachable, with(kOtherHost, Backend::kAuto, false)}));
}

}  // namespace
}  // namespace ffdl::comm
