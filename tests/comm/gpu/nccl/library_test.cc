#include "comm/gpu/nccl/library.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/fake_nccl.h"
#include "support/programs.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::comm {
namespace {

TEST(NcclLibrary, IsLookedForInItsFolderAlone) {
  EXPECT_EQ(nccl_places({.nccl_root = "/opt/nccl", .python_prefixes = {"/venv"}}),
            (std::vector<std::string>{"/opt/nccl/lib/libnccl.so.2", "/opt/nccl/libnccl.so.2"}));
}

TEST(NcclLibrary, ElseByItsNameAndThenInPythonEnvironments) {
  const TempFolder folder;
  const std::string package = "/site-packages/nvidia/nccl/lib/libnccl.so.2";
  const std::string newer = folder.write("venv/lib/python3.12" + package, "nothing");
  const std::string older = folder.write("venv/lib/python3.11" + package, "nothing");
  folder.write("venv/lib/node" + package, "nothing");
  folder.write("conda/lib/python3.13/site-packages/numpy.py", "nothing");
  EXPECT_EQ(nccl_places({.python_prefixes = {folder.file("venv"), folder.file("conda"),
                                             folder.file("none")}}),
            (std::vector<std::string>{"libnccl.so.2", older, newer}));
}

TEST(NcclLibrary, TheFirstThatLoadsIsTaken) {
  testing::fresh_fake_nccl();
  const TempFolder folder;
  const std::string none = folder.write("libnccl.so.2", "nothing");
  ASSERT_OK_AND_ASSIGN(const auto library, NcclLibrary::load({none, kFakeNccl, none}));
  EXPECT_EQ(library->path(), kFakeNccl);
  EXPECT_EQ(library->version(), 23007);
  EXPECT_NE((*library)->init_rank_scalable, nullptr);
}

TEST(NcclLibrary, WhatIsOfALaterVersionIsNullInAnEarlierOne) {
  testing::fresh_fake_nccl();
  const auto present = testing::fake_nccl();
  const auto before = testing::fake_nccl(kFakeNcclWithoutGrow);
  EXPECT_NE((*present)->grow, nullptr);
  EXPECT_NE((*present)->get_grow_id, nullptr);
  EXPECT_EQ((*before)->grow, nullptr);
  EXPECT_EQ((*before)->get_grow_id, nullptr);
  for (const auto& library : {present, before}) {
    EXPECT_NE((*library)->shrink, nullptr);
    EXPECT_NE((*library)->revoke, nullptr);
  }
}

TEST(NcclLibrary, OneThatIsMissingIsNamedWithAllPlaces) {
  const Status status = NcclLibrary::load({"/none/libnccl.so.2", "/nowhere/libnccl.so.2"}).status();
  EXPECT_FAILS(status, StatusCode::kUnimplemented, "/none/libnccl.so.2");
  EXPECT_FAILS(status, StatusCode::kUnimplemented, "/nowhere/libnccl.so.2");
  EXPECT_FAILS(status, StatusCode::kUnimplemented, "set NCCL_ROOT");
}

TEST(NcclLibrary, OneThatCannotDoIsRefused) {
  EXPECT_FAILS(NcclLibrary::load({kFakeNcclOld}), StatusCode::kUnimplemented,
               "it is version 2.10.3, but calls with a deadline need 2.14.0 or newer");
  EXPECT_FAILS(NcclLibrary::load({kFakeNcclBroken}), StatusCode::kUnimplemented,
               "version 2.21.5 has no ncclGetUniqueId");
  EXPECT_FAILS(NcclLibrary::load({"libm.so.6"}), StatusCode::kUnimplemented,
               "it is another library");
}

TEST(NcclLibrary, VersionsAreToldAsNcclCountsThem) {
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
  EXPECT_EQ(nccl_version_text(21003), "2.10.3");
  EXPECT_EQ(nccl_version_text(23007), "2.30.7");
}

}  // namespace
}  // namespace ffdl::comm
