#include "comm/operation/request.h"

#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

World world_of(int rank, int ranks) {
  return {.generation = 4, .rank = rank, .members = testing::members_named(ranks)};
}

TEST(CheckOperation, InPlaceIsTheOutputTwice) {
  float values[4] = {};
  const Buffer buffer = {values, 4, DType::kFloat32};
  const Operation operation = {.kind = Collective::kAllReduce, .in = {}, .out = {&buffer, 1}};
  const World world = world_of(0, 2);
  ASSERT_OK_AND_ASSIGN(const Request request, check_operation(operation, world));
  EXPECT_EQ(request.in.data(), request.out.data());
  EXPECT_EQ(request.signature.block, 4U);
  EXPECT_EQ(describe(request.signature), "all_reduce sum of 4 float32");
}

// The signature that members compare excludes values on which they need not agree.
TEST(CheckOperation, AnUnusedReductionAndRootDoNotCount) {
  int8_t values[4] = {};
  const Buffer buffer = {values, 4, DType::kInt8};
  const World world = world_of(1, 2);
  ASSERT_OK_AND_ASSIGN(
      const Request scattered,
      check_operation({Collective::kScatter, {}, {&buffer, 1}, ReduceOp::kMax, 0}, world));
  EXPECT_EQ(describe(scattered.signature), "scatter of 4 int8 with root 0");
  EXPECT_EQ(scattered.signature.reduce, ReduceOp::kSum);
  ASSERT_OK_AND_ASSIGN(const Request barrier,
                       check_operation({Collective::kBarrier, {}, {}, {}, 1}, world));
  EXPECT_EQ(barrier.signature, Signature{});
}

TEST(CheckOperation, RefusesWhatCannotBe) {
  float values[4] = {};
  int32_t numbers[4] = {};
  const Buffer mixed[] = {{values, 2, DType::kFloat32}, {numbers, 2, DType::kInt32}};
  const Buffer integers = {numbers, 4, DType::kInt32};
  const Buffer unknown = {values, 1, static_cast<DType>(77)};
  const Buffer huge[] = {{values, UINT64_MAX, DType::kFloat32}, {values, 2, DType::kFloat32}};
  const World world = world_of(0, 2);
  const auto fails = [&](const Operation& operation, const char* text) {
    EXPECT_FAILS(check_operation(operation, world), StatusCode::kInvalidArgument, text);
  };
  fails({Collective::kAllReduce, {}, mixed}, "a buffer of int32 beside one of float32");
  fails({Collective::kAllReduce, {}, {&integers, 1}, ReduceOp::kMean}, "integers have no mean");
  fails({Collective::kAllReduce, {}, {&unknown, 1}}, "dtype 77");
  fails({Collective::kAllReduce, {}, huge}, "more than");
  fails({static_cast<Collective>(99), {}, {}}, "operation 99");
  fails({Collective::kBroadcast, {}, {&integers, 1}, {}, -1}, "root -1");
  fails({Collective::kBarrier, {}, {&integers, 1}}, "4 elements to receive");
}

TEST(CheckOperation, NoBackEndSendsUnasked) {
  int8_t value = 0;
  const Buffer buffer = {&value, 1, DType::kInt8};
  const World world = world_of(0, 3);
  const Operation send = {.kind = Collective::kSend, .in = {&buffer, 1}, .peer = 2};
  EXPECT_FAILS(check_operation(send, world), StatusCode::kUnimplemented, "send: this back end");
  ASSERT_OK_AND_ASSIGN(const Request request, check_pair_operation(send, world));
  EXPECT_EQ(describe(request.signature), "send of 1 int8 to rank 2");
  const Operation wrong = {.kind = Collective::kRecv, .in = {&buffer, 1}, .peer = 2};
  EXPECT_FAILS(check_pair_operation(wrong, world), StatusCode::kInvalidArgument,
               "recv: 1 elements to send");
}

TEST(CheckOperation, AMessageFitsWhoWantsAsMuchOfTheSameType) {
  const Signature sent = {.kind = Collective::kSend, .root = 1, .dtype = DType::kInt8, .block = 3};
  Signature wanted = {.kind = Collective::kRecv, .root = 0, .dtype = DType::kInt8, .block = 3};
  EXPECT_TRUE(fit(sent, wanted));
  wanted.block = 2;
  EXPECT_FALSE(fit(sent, wanted));
  wanted.block = 3;
  wanted.dtype = DType::kInt16;
  EXPECT_FALSE(fit(sent, wanted));
}

TEST(CheckWorld, OnlyMembersCanConnect) {
  EXPECT_OK(check_world(world_of(0, 1)));
  EXPECT_FAILS(check_world(world_of(2, 2)), StatusCode::kInvalidArgument, "rank 2 of 2");
  EXPECT_FAILS(check_world(world_of(-1, 2)), StatusCode::kInvalidArgument, "rank -1");
  EXPECT_FAILS(check_world(world_of(0, 0)), StatusCode::kInvalidArgument, "0 members");
  EXPECT_FAILS(check_world(world_of(0, 257)), StatusCode::kInvalidArgument, "257 members");
  World twice = world_of(0, 2);
  twice.members[1].id = twice.members[0].id;
  EXPECT_FAILS(check_world(twice), StatusCode::kInvalidArgument, "two members 'm0'");
}

}  // namespace
}  // namespace ffdl::comm
