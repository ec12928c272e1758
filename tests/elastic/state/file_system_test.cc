#include "elastic/state/file_system.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/memory_files.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::elastic {
namespace {

using ::testing::UnorderedElementsAre;

TEST(FileSystem, WhatIsWrittenCanBeRead) {
  const TempFolder temp;
  const std::string folder = temp.file("a/b");
  FileSystem& files = system_files();
  ASSERT_OK(files.make_folder(folder));
  ASSERT_OK(files.make_folder(folder));
  ASSERT_OK(replace_file(files, folder, "one", 0, "first"));
  ASSERT_OK(replace_file(files, folder, "one", 0, "second"));
  EXPECT_EQ(read_text(files, folder + "/one", 100).value(), "second");
  EXPECT_THAT(files.list(folder).value(), UnorderedElementsAre("one"));
  EXPECT_TRUE(files.exists(folder + "/one"));
  EXPECT_FAILS(read_text(files, folder + "/one", 5), StatusCode::kCorrupt, "at most 5");
  ASSERT_OK_AND_ASSIGN(const auto file, files.open(folder + "/one"));
  std::byte byte[4];
  EXPECT_FAILS(file->read(3, byte), StatusCode::kCorrupt, "read at byte 6 of");
  EXPECT_EQ(files.remove_folder(folder).code(), StatusCode::kConflict);
  ASSERT_OK(files.remove_file(folder + "/one"));
  ASSERT_OK(files.remove_file(folder + "/one"));
  ASSERT_OK(files.remove_folder(folder));
  EXPECT_FALSE(files.exists(folder));
}

TEST(FileSystem, WhatLiesAlikeInMemoryAndFileIsCutAtBlocks) {
  alignas(kBlockBytes) static std::byte memory[2 * kDirectBytesMin];
  const auto sizes = [&](size_t address, uint64_t offset, size_t size) {
    const BlockCut cut = cut_at_blocks(offset, std::span(memory).subspan(address, size));
    return std::vector<size_t>{cut.before.size(), cut.blocks.size(), cut.after.size()};
  };
  constexpr uint64_t kMin = kDirectBytesMin;
  EXPECT_EQ(sizes(0, 0, kMin), (std::vector<size_t>{0, kMin, 0}));
  EXPECT_EQ(sizes(0, 3 * kBlockBytes, kMin + 5), (std::vector<size_t>{0, kMin, 5}));
  EXPECT_EQ(sizes(100, kBlockBytes + 100, kMin + kBlockBytes),
            (std::vector<size_t>{kBlockBytes - 100, kMin, 100}));
  EXPECT_EQ(sizes(100, 101, kMin + kBlockBytes), (std::vector<size_t>{kMin + kBlockBytes, 0, 0}));
  EXPECT_EQ(sizes(0, 0, kMin - 1), (std::vector<size_t>{kMin - 1, 0, 0}));
  EXPECT_EQ(sizes(0, 0, 0), (std::vector<size_t>{0, 0, 0}));
}

// Writes with and without blocks that the disk takes directly, in any order, on any file system.
// The bytes read are the bytes written.
TEST(FileSystem, LargeWritesOfAllPlacesAreThere) {
  constexpr size_t kSize = (3 << 20) + 777;
  const auto memory = std::make_unique<std::byte[]>(kSize + kBlockBytes);
  std::byte* const page =
      memory.get() + (kBlockBytes - reinterpret_cast<uintptr_t>(memory.get()) % kBlockBytes);
  for (size_t i = 0; i < kSize; ++i) page[i] = static_cast<std::byte>(i * i >> 7);
  const TempFolder temp;
  for (const auto& path : {temp.file("file"), "/dev/shm/" + std::to_string(getpid())}) {
    for (const size_t shift : {0, 1, 4095}) {
      ASSERT_OK_AND_ASSIGN(const auto file, system_files().create(path));
      // Writes the end first, then the begin: there are holes, and writes that meet within a block.
      for (const auto& [begin, end] :
           {std::pair<size_t, size_t>{1'000'001, kSize}, {0, 1'000'001}}) {
        const std::span bytes(page + begin, end - begin);
        ASSERT_OK(file->write(begin + shift, bytes));
      }
      ASSERT_OK(file->sync());
      ASSERT_OK_AND_ASSIGN(const auto stored, system_files().open(path));
      ASSERT_EQ(stored->size(), kSize + shift);
      std::vector<std::byte> back(kSize);
      ASSERT_OK(stored->read(shift, back));
      EXPECT_EQ(std::memcmp(back.data(), page, kSize), 0) << path << " " << shift;
    }
    ASSERT_OK(system_files().remove_file(path));
  }
}

TEST(FileSystem, ErrorsNameThePath) {
  FileSystem& files = system_files();
  EXPECT_FAILS(files.open("/no/such"), StatusCode::kNotFound, "open '/no/such': No such file");
  EXPECT_FAILS(files.list("/no/such"), StatusCode::kNotFound, "list '/no/such'");
  EXPECT_FAILS(files.sync_folder("/no/such"), StatusCode::kNotFound, "'/no/such'");
  EXPECT_FAILS(files.make_folder("/proc/no"), StatusCode::kNotFound, "make the folder '/proc/no'");
}

// Each kind of thing that another process may have placed at the name of a file.
TEST(FileSystem, NothingPlacedInTheWayIsWrittenTo) {
  const TempFolder temp;
  const std::string path = temp.file("folder/file");
  const std::string own = temp.write("own", "mine");
  ASSERT_OK(system_files().make_folder(temp.file("folder")));
  const auto content = [&](const std::string& of) { return read_text(system_files(), of, 99); };
  const std::vector<std::function<int()>> places = {
      [&] { return symlink(own.c_str(), path.c_str()); },
      [&] { return symlink("nowhere", path.c_str()); },
      [&] { return link(own.c_str(), path.c_str()); },
      [&] { return mkfifo(path.c_str(), 0666); },
  };
  for (size_t i = 0; i < places.size(); ++i) {
    ASSERT_EQ(places[i](), 0);
    {
      ASSERT_OK_AND_ASSIGN(const auto file, system_files().create(path));
      ASSERT_OK(file->write(0, std::as_bytes(std::span(std::string_view("new")))));
    }
    EXPECT_EQ(content(own).value(), "mine") << i;
    EXPECT_EQ(content(path).value(), "new") << i;
    struct stat facts = {};
    EXPECT_EQ(lstat(path.c_str(), &facts), 0);
    EXPECT_TRUE(S_ISREG(facts.st_mode)) << i;
    EXPECT_FALSE(system_files().exists(temp.file("folder/nowhere")));
    ASSERT_OK(system_files().remove_file(path));
  }
  ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
  EXPECT_FAILS(system_files().create(path), StatusCode::kUnavailable, "has placed at '" + path);
  ASSERT_EQ(symlink("folder", temp.file("linked").c_str()), 0);
  EXPECT_FAILS(system_files().create(temp.file("linked/file")), StatusCode::kUnavailable,
               "its folder is a link");
}

// The names of an earlier life of this user are used again, and hold nothing of it.
TEST(FileSystem, AnEarlierFileIsReplaced) {
  const TempFolder temp;
  const std::string path = temp.write("file", "longer than the new one");
  ASSERT_OK_AND_ASSIGN(const auto file, system_files().create(path));
  ASSERT_OK(file->write(0, std::as_bytes(std::span(std::string_view("new")))));
  EXPECT_EQ(read_text(system_files(), path, 99).value(), "new");
}

// Replaces a full disk by a limit of file sizes, in a process of its own.
TEST(FileSystem, ALimitOfSizesIsExhaustedAtAByte) {
  const TempFolder temp;
  const pid_t child = testing::fork_child();
  if (child == 0) {
    signal(SIGXFSZ, SIG_DFL);  // it would end the process
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string bytes(300, 'x');
    const auto file = system_files().create(temp.file("file"));
    const Status written = (*file)->write(0, std::as_bytes(std::span(bytes)));
    const bool is_told = written.message().find("write at byte 100 of") != written.message().npos;
    const bool is_named = written.message().find("ulimit -f") != written.message().npos;
    _exit(written.code() == StatusCode::kExhausted && is_told && is_named ? 0 : 1);
  }
  EXPECT_EQ(testing::exit_code(child), 0);
}

// Concurrent writers use different names for their incomplete files.
TEST(ReplaceFile, WritersDoNotSeeWhatOthersHaveHalfWritten) {
  testing::MemoryFiles files;
  ASSERT_OK(files.make_folder("/f"));
  ASSERT_OK_AND_ASSIGN(const auto of_another, files.create("/f/one.00001.unfinished"));
  ASSERT_OK(of_another->write(0, std::as_bytes(std::span(std::string_view("who")))));
  ASSERT_OK(replace_file(files, "/f", "one", 0, "whole"));
  EXPECT_EQ(files.bytes_of("/f/one"), "whole");
  EXPECT_EQ(files.bytes_of("/f/one.00001.unfinished"), "who");
}

TEST(MemoryFiles, ACrashTakesWhatNobodySynced) {
  testing::MemoryFiles files;
  ASSERT_OK(files.make_folder("/f"));
  ASSERT_OK(replace_file(files, "/f", "one", 0, "whole"));
  {
    ASSERT_OK_AND_ASSIGN(const auto file, files.create("/f/two"));
    ASSERT_OK(file->write(0, std::as_bytes(std::span(std::string_view("lost")))));
    ASSERT_OK(files.sync_folder("/f"));
    ASSERT_OK(files.rename("/f/two", "/f/three"));
  }
  files.crash(testing::MemoryFiles::After::kPowerLoss);
  EXPECT_THAT(files.paths(), UnorderedElementsAre("/f/one", "/f/two"));
  EXPECT_EQ(files.bytes_of("/f/one"), "whole");
  EXPECT_EQ(files.bytes_of("/f/two"), "");
}

}  // namespace
}  // namespace ffdl::elastic
