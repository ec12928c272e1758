#include "store/local/file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/fork_child.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/time_namespace.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

Result<std::unique_ptr<Store>> open_at(const TempFolder& folder, StoreOptions options = {}) {
  return FileStore::open(folder.path(), system_runtime(), options);
}

TEST(FileStore, OutlivesItsUsers) {
  const TempFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(auto store, open_at(folder));
    ASSERT_OK(store->put("k", "v"));
  }
  ASSERT_OK_AND_ASSIGN(auto store, open_at(folder));
  EXPECT_EQ(store->get("k")->value, "v");
}

TEST(FileStore, OtherBytesAreCorrupt) {
  const TempFolder folder;
  folder.write("state", "not a store");
  EXPECT_FAILS(open_at(folder), StatusCode::kCorrupt, "its first bytes are wrong");
}

TEST(FileStore, AStateThatIsCutToNothingIsCorrupt) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(auto store, open_at(folder));
  ASSERT_OK(store->put("k", "v"));
  folder.write("state", "");
  EXPECT_FAILS(store->get("k"), StatusCode::kCorrupt, "its file is empty");
  EXPECT_FAILS(open_at(folder), StatusCode::kCorrupt, "/state");
}

TEST(FileStore, AFolderThatCannotBeMadeSaysSo) {
  const TempFolder folder;
  const std::string file = folder.write("file", "");
  EXPECT_FAILS(FileStore::open(file + "/below", system_runtime(), {}), StatusCode::kUnavailable,
               "below");
}

TEST(FileStore, AProcessThatStopsWithTheLockIsNamedAsTheCause) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(auto store, open_at(folder, {.operation_timeout = 1s}));
  const int fd = ::open((folder.path() + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_FAILS(store->get("k"), StatusCode::kUnavailable, "is a process that uses it stopped");
  ::close(fd);
  EXPECT_TRUE(comes_true([&] { return store->get("k").status().code() == StatusCode::kNotFound; }));
}

// A lease is over at the same moment for all, although their clocks differ.
TEST(FileStore, AnotherTimeNamespaceHasTheSameLeases) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(auto store, open_at(folder));
  ASSERT_OK_AND_ASSIGN(const LeaseId mine, store->grant_lease(600s));
  ASSERT_OK(store->put("mine", "v", mine));
  const int outcome = testing::in_time_namespace([&] {
    auto inside = open_at(folder);
    if (!inside.ok() || !(*inside)->get("mine").ok()) return 1;
    const auto its = (*inside)->grant_lease(1s);
    return its.ok() && (*inside)->put("its", "v", *its).ok() ? 0 : 2;
  });
  if (outcome == testing::kNoTimeNamespace) GTEST_SKIP() << "there are no time namespaces here";
  EXPECT_EQ(outcome, 0);
  EXPECT_TRUE(comes_true([&] { return !store->get("its").ok(); }));
  EXPECT_OK(store->get("mine"));
}

// A process that is killed during its puts leaves a complete state and no lock.
TEST(FileStore, AKilledWriterLeavesAWholeState) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(auto store, open_at(folder));
  ASSERT_OK_AND_ASSIGN(Revision seen, store->put("k", "0"));
  for (int kills = 0; kills < 5; ++kills) {
    const pid_t child = testing::fork_child();
    if (child == 0) {
      auto writer = open_at(folder);
      for (uint64_t i = 0; writer.ok(); ++i) {
        if (!(*writer)->put("k", std::to_string(i)).ok()) break;
      }
      _exit(1);
    }
    // The child is writing once the store has changed.
    const auto changed = store->wait_change("k", seen, deadline_in(60s));
    kill(child, SIGKILL);
    int outcome = 0;
    waitpid(child, &outcome, 0);
    ASSERT_TRUE(WIFSIGNALED(outcome));
    ASSERT_OK(changed);
    ASSERT_OK_AND_ASSIGN(const Entry entry, store->get("k"));
    seen = entry.revision;
  }
}

}  // namespace
}  // namespace ffdl::store
