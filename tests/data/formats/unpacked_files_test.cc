#include "data/formats/unpacked_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/errors.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

UnpackedFiles::Unpack of_size(size_t bytes) {
  return
      [bytes]() -> Result<UnpackedFile> { return UnpackedFile{std::vector<std::byte>(bytes), {}}; };
}

TEST(UnpackedFiles, KeepsTheOnesThatWereUsedLast) {
  UnpackedFiles files(250);
  const auto use = [&](size_t number) { EXPECT_OK(files.get(number, of_size(100)).status()); };
  use(1);
  use(2);
  use(1);
  EXPECT_EQ(files.unpacked(), 2U);
  use(3);  // replaces 2
  use(1);
  EXPECT_EQ(files.unpacked(), 3U);
  use(2);
  EXPECT_EQ(files.unpacked(), 4U);
  EXPECT_EQ(files.bytes(), 200U);
}

TEST(UnpackedFiles, KeepsTheLastHoweverLargeItIs) {
  UnpackedFiles files(250);
  EXPECT_OK(files.get(1, of_size(100)).status());
  ASSERT_OK_AND_ASSIGN(const auto large, files.get(2, of_size(1000)));
  EXPECT_EQ(files.bytes(), 1000U);
  EXPECT_OK(files.get(1, of_size(100)).status());
  EXPECT_EQ(files.bytes(), 100U);
  EXPECT_EQ(large->bytes.size(), 1000U);  // a holder keeps it alive
}

TEST(UnpackedFiles, TwoThreadsUnpackAFileOnce) {
  UnpackedFiles files(1000);
  std::promise<void> begun;
  std::promise<void> go_on;
  const auto slowly = [&]() -> Result<UnpackedFile> {
    begun.set_value();
    go_on.get_future().wait();
    return UnpackedFile{std::vector<std::byte>(1), {}};
  };
  std::thread first([&] { EXPECT_OK(files.get(1, slowly).status()); });
  begun.get_future().wait();
  std::thread second([&] {
    ASSERT_OK_AND_ASSIGN(const auto file, files.get(1, of_size(2)));
    EXPECT_EQ(file->bytes.size(), 1U);
  });
  EXPECT_OK(files.get(2, of_size(3)).status());  // another file meanwhile
  go_on.set_value();
  first.join();
  second.join();
  EXPECT_EQ(files.unpacked(), 2U);
}

TEST(UnpackedFiles, AFileThatCannotBeUnpackedIsTriedAgain) {
  UnpackedFiles files(1000);
  const auto fail = [&]() -> Result<UnpackedFile> {
    return base::make_error(StatusCode::kUnavailable, "no disk");
  };
  EXPECT_FAILS(files.get(1, fail), StatusCode::kUnavailable, "no disk");
  EXPECT_OK(files.get(1, of_size(1)).status());
}

}  // namespace
}  // namespace ffdl::data
