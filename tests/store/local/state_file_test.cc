#include "store/local/state_file.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart = Time(100s);

State filled() {
  State state;
  const auto lease = state.grant_lease(10s, kStart);
  EXPECT_OK(lease);
  EXPECT_OK(state.put("a", std::string("\0b", 2), *lease, kStart));
  EXPECT_OK(state.put("c", "", kNoLease, kStart));
  state.remove("c", kStart);
  return state;
}

TEST(StateFile, WhatIsWrittenIsReadAgain) {
  const std::string bytes = StateFile::write(filled(), "boot");
  ASSERT_OK_AND_ASSIGN(State state, StateFile::read(bytes, "boot", kStart));
  EXPECT_EQ(StateFile::write(state, "boot"), bytes);
  EXPECT_EQ(state.get("a", kStart)->value, std::string("\0b", 2));
  EXPECT_TRUE(state.has_changed("c", 2, kStart));
  EXPECT_FALSE(state.has_changed("a", 2, kStart));
  EXPECT_TRUE(state.has_changed("a", 2, kStart + 10s));
}

TEST(StateFile, NoBytesAreNoStore) {
  EXPECT_FAILS(StateFile::read("", "boot", kStart), StatusCode::kCorrupt, "start again");
}

TEST(StateFile, AfterARebootLeasesBeginTheirTermAgain) {
  const std::string bytes = StateFile::write(filled(), "boot");
  ASSERT_OK_AND_ASSIGN(const State state, StateFile::read(bytes, "another", Time(5s)));
  EXPECT_EQ(state.next_end(), Time(15s));
}

TEST(StateFile, NoChangedByteAndNoMissingOneGoesUnnoticed) {
  const std::string bytes = StateFile::write(filled(), "boot");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_EQ(StateFile::read(changed, "boot", kStart).status().code(), StatusCode::kCorrupt) << i;
    EXPECT_EQ(StateFile::read(bytes.substr(0, i), "boot", kStart).status().code(),
              StatusCode::kCorrupt)
        << i;
  }
}

}  // namespace
}  // namespace ffdl::store
