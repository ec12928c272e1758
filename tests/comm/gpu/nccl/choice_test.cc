#include "comm/gpu/nccl/choice.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

nccl::Code take_ids(nccl::Comm*, int, int, int, nccl::UniqueId*, nccl::Config*) {
  return nccl::Code::kSuccess;
}

TEST(NcclChoice, LargeWorldsConnectThroughSeveralIdsWhereTheLibraryTakesThem) {
  const nccl::Functions old{};
  nccl::Functions present{};
  present.init_rank_scalable = take_ids;
  const struct {
    int ranks;
    int ids;
  } cases[] = {{1, 1}, {2, 1}, {128, 1}, {129, 2}, {256, 2}};
  for (const auto& [ranks, ids] : cases) {
    EXPECT_EQ(nccl_ids(ranks, old), 1) << ranks;
    EXPECT_EQ(nccl_ids(ranks, present), ids) << ranks;
  }
}

// Tests the example of NCCL's user guide. The number of makers always equals the number of ids.
TEST(NcclChoice, TheFirstRankOfEachShareMakesAnId) {
  std::vector<int> makers;
  for (int rank = 0; rank < 7; ++rank) {
    if (makes_nccl_id(rank, 7, 3)) makers.push_back(rank);
  }
  EXPECT_EQ(makers, (std::vector<int>{0, 3, 5}));
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int ids = 1; ids <= ranks; ++ids) {
      int made = 0;
      for (int rank = 0; rank < ranks; ++rank) made += makes_nccl_id(rank, ranks, ids);
      ASSERT_EQ(made, ids) << ranks;
      ASSERT_TRUE(makes_nccl_id(0, ranks, ids));
    }
  }
}

TEST(NcclChoice, TypesAreThoseOfNcclAndInt16IsNone) {
  const struct {
    DType type;
    nccl::Type wanted;
  } cases[] = {{DType::kInt8, nccl::Type::kInt8},        {DType::kInt32, nccl::Type::kInt32},
               {DType::kInt64, nccl::Type::kInt64},      {DType::kFloat16, nccl::Type::kFloat16},
               {DType::kFloat32, nccl::Type::kFloat32},  {DType::kFloat64, nccl::Type::kFloat64},
               {DType::kBFloat16, nccl::Type::kBFloat16}};
  for (const auto& [type, wanted] : cases) {
    ASSERT_OK_AND_ASSIGN(const nccl::Type got, nccl_type(type));
    EXPECT_EQ(got, wanted) << to_string(type);
  }
  EXPECT_FAILS(nccl_type(DType::kInt16), StatusCode::kUnimplemented, "use int32");
}

TEST(NcclChoice, AFailureSaysWhatTheCallerDoes) {
  const struct {
    nccl::Code code;
    StatusCode wanted;
  } cases[] = {{nccl::Code::kRemoteError, StatusCode::kPeerLost},
               {nccl::Code::kSystemError, StatusCode::kPeerLost},
               {nccl::Code::kInvalidUsage, StatusCode::kInvalidArgument},
               {nccl::Code::kInvalidArgument, StatusCode::kInvalidArgument},
               {nccl::Code::kTimeout, StatusCode::kTimeout},
               {nccl::Code::kUnhandledCudaError, StatusCode::kInternal},
               {nccl::Code::kInternalError, StatusCode::kInternal}};
  for (const auto& [code, wanted] : cases) {
    const Status status = nccl_error("add up", code, "a name", "a reason");
    EXPECT_FAILS(status, wanted, "add up: NCCL reported 'a name': a reason; ");
  }
  EXPECT_FAILS(nccl_error("add up", nccl::Code::kTimeout, "late", ""), StatusCode::kTimeout,
               "'late'; wait longer");
}

TEST(NcclChoice, RanksOnOneGpuAreReadFromNcclsText) {
  EXPECT_EQ(
      ranks_on_one_gpu("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000"),
      std::pair(1, 0));
  for (const char* text : {"", "Duplicate GPU detected", "Duplicate GPU detected : rank x",
                           "rank 1 and rank 0 both on CUDA device 3b000"}) {
    EXPECT_EQ(ranks_on_one_gpu(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ffdl::comm
