#include "comm/introduction.h"

#include <gtest/gtest.h>

#include "comm/links.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

const Introduction kHere = {Backend::kAuto, true, {"boot/1/0", "boot/7", "boot/4"}};
const Introduction kContainer = {Backend::kAuto, true, {"boot/2/0", "boot/7", "boot/5"}};
const Introduction kOtherHost = {Backend::kAuto, true, {"other/1/0", "other/7", "other/4"}};

Introduction with(Introduction introduction, Backend backend, bool loopback = true) {
  introduction.backend = backend;
  introduction.loopback = loopback;
  return introduction;
}

Status check(const std::vector<Introduction>& members) {
  const auto ranks = static_cast<int>(members.size());
  return check_members({1, 0, testing::members_named(ranks)}, members);
}

TEST(Introduction, ComesBackFromItsRecord) {
  for (const Backend backend : {Backend::kAuto, Backend::kShm, Backend::kGloo,
                                Backend::kHierarchical, Backend::kNccl, Backend::kDeviceShm}) {
    for (const bool loopback : {true, false}) {
      const Introduction given = with(kContainer, backend, loopback);
      ASSERT_OK_AND_ASSIGN(const Introduction got, from_record(to_record(given)));
      EXPECT_EQ(got.backend, backend);
      EXPECT_EQ(got.loopback, loopback);
      EXPECT_EQ(got.host.memory, given.host.memory);
      EXPECT_EQ(got.host.network, given.host.network);
      EXPECT_EQ(got.host.processes, given.host.processes);
    }
  }
}

TEST(Introduction, WhatIsNoneIsCorrupt) {
  const std::string whole = to_record(kHere);
  for (const std::string& record :
       {std::string(), std::string("auto"), std::string("shm x y z p"),
        whole.substr(0, whole.rfind(' ')), whole + " more", whole + " "}) {
    EXPECT_FAILS(from_record(record), StatusCode::kCorrupt, "no introduction");
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
  if (!have_links().ok()) GTEST_SKIP() << have_links().to_string();
  EXPECT_OK(check({kHere, kContainer}));
  const Introduction reachable = with(kHere, Backend::kAuto, false);
  EXPECT_FAILS(check({reachable, kOtherHost}), StatusCode::kInvalidArgument,
               "rank 1 'm1' has given no address");
  EXPECT_OK(check({reachable, with(kOtherHost, Backend::kAuto, false)}));
}

}  // namespace
}  // namespace ffdl::comm
