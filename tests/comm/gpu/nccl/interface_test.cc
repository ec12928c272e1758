#include "comm/gpu/nccl/interface.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <filesystem>

#include "comm/gpu/nccl/library.h"
#include "support/same_shape.h"
#include "support/status_matchers.h"

// Compares src/comm/gpu/nccl/interface.h with NCCL's own header.
namespace ffdl::comm::nccl {
namespace {

using testing::expect_same;
using testing::same_shape;

TEST(NcclInterface, NumbersAndLayoutsAreThoseOfTheHeader) {
  expect_same(Code::kSuccess, ncclSuccess);
  expect_same(Code::kUnhandledCudaError, ncclUnhandledCudaError);
  expect_same(Code::kSystemError, ncclSystemError);
  expect_same(Code::kInternalError, ncclInternalError);
  expect_same(Code::kInvalidArgument, ncclInvalidArgument);
  expect_same(Code::kInvalidUsage, ncclInvalidUsage);
  expect_same(Code::kRemoteError, ncclRemoteError);
  expect_same(Code::kInProgress, ncclInProgress);
  expect_same(Type::kInt8, ncclInt8);
  expect_same(Type::kInt32, ncclInt32);
  expect_same(Type::kInt64, ncclInt64);
  expect_same(Type::kFloat16, ncclFloat16);
  expect_same(Type::kFloat32, ncclFloat32);
  expect_same(Type::kFloat64, ncclFloat64);
  expect_same(Type::kBFloat16, ncclBfloat16);
  expect_same(Op::kSum, ncclSum);
  expect_same(Op::kProduct, ncclProd);
  expect_same(Op::kMax, ncclMax);
  expect_same(Op::kMin, ncclMin);
  expect_same(Op::kMean, ncclAvg);
  EXPECT_EQ(sizeof(UniqueId), sizeof(ncclUniqueId));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  EXPECT_EQ(kShrinkAbort, NCCL_SHRINK_ABORT);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
  EXPECT_EQ(kSuspendMemory, NCCL_SUSPEND_MEM);
  expect_same(MemoryStat::kSuspendable, ncclStatGpuMemSuspend);
#endif
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_LE(sizeof ours, sizeof theirs);
  EXPECT_EQ(offsetof(Config, magic), offsetof(ncclConfig_t, magic));
  EXPECT_EQ(offsetof(Config, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(Config, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(ours.version, static_cast<unsigned>(NCCL_VERSION(2, 14, 0)));
}

// The test names only the functions' types, and links none.
TEST(NcclInterface, FunctionsHaveTheShapesOfTheHeader) {
  const Functions f{};
  EXPECT_TRUE(same_shape(f.get_version, decltype(&ncclGetVersion){}));
  EXPECT_TRUE(same_shape(f.get_unique_id, decltype(&ncclGetUniqueId){}));
  EXPECT_TRUE(same_shape(f.init_rank, decltype(&ncclCommInitRankConfig){}));
  EXPECT_TRUE(same_shape(f.init_rank_scalable, decltype(&ncclCommInitRankScalable){}));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  EXPECT_TRUE(same_shape(f.shrink, decltype(&ncclCommShrink){}));
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
  EXPECT_TRUE(same_shape(f.revoke, decltype(&ncclCommRevoke){}));
  EXPECT_TRUE(same_shape(f.get_grow_id, decltype(&ncclCommGetUniqueId){}));
  EXPECT_TRUE(same_shape(f.grow, decltype(&ncclCommGrow){}));
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
  EXPECT_TRUE(same_shape(f.suspend, decltype(&ncclCommSuspend){}));
  EXPECT_TRUE(same_shape(f.resume, decltype(&ncclCommResume){}));
  EXPECT_TRUE(same_shape(f.memory_stats, decltype(&ncclCommMemStats){}));
#endif
  EXPECT_TRUE(same_shape(f.get_async_error, decltype(&ncclCommGetAsyncError){}));
  EXPECT_TRUE(same_shape(f.finalize, decltype(&ncclCommFinalize){}));
  EXPECT_TRUE(same_shape(f.destroy, decltype(&ncclCommDestroy){}));
  EXPECT_TRUE(same_shape(f.abort, decltype(&ncclCommAbort){}));
  EXPECT_TRUE(same_shape(f.get_error_string, decltype(&ncclGetErrorString){}));
  EXPECT_TRUE(same_shape(f.get_last_error, decltype(&ncclGetLastError){}));
  EXPECT_TRUE(same_shape(f.all_reduce, decltype(&ncclAllReduce){}));
  EXPECT_TRUE(same_shape(f.reduce_scatter, decltype(&ncclReduceScatter){}));
  EXPECT_TRUE(same_shape(f.reduce, decltype(&ncclReduce){}));
  EXPECT_TRUE(same_shape(f.all_gather, decltype(&ncclAllGather){}));
  EXPECT_TRUE(same_shape(f.broadcast, decltype(&ncclBroadcast){}));
  EXPECT_TRUE(same_shape(f.send, decltype(&ncclSend){}));
  EXPECT_TRUE(same_shape(f.recv, decltype(&ncclRecv){}));
  EXPECT_TRUE(same_shape(f.group_start, decltype(&ncclGroupStart){}));
  EXPECT_TRUE(same_shape(f.group_end, decltype(&ncclGroupEnd){}));
}

// The library can be loaded and asked for its version without a GPU and without a driver.
TEST(NcclInterface, TheLibraryHasAllThatIsCalled) {
  const std::string path = FFDL_NCCL_LIBRARY;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is a header, but no " << path;
  ASSERT_OK_AND_ASSIGN(const auto library, NcclLibrary::load({path}));
  EXPECT_EQ(library->version(), NCCL_VERSION_CODE);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
  EXPECT_NE((*library)->shrink, nullptr);
  EXPECT_NE((*library)->revoke, nullptr);
  EXPECT_NE((*library)->get_grow_id, nullptr);
  EXPECT_NE((*library)->grow, nullptr);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
  EXPECT_NE((*library)->suspend, nullptr);
  EXPECT_NE((*library)->resume, nullptr);
  EXPECT_NE((*library)->memory_stats, nullptr);
#endif
}

}  // namespace
}  // namespace ffdl::comm::nccl
