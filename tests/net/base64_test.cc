#include "net/base64.h"

#include <gtest/gtest.h>

namespace ffdl::net {
namespace {

TEST(Base64, IsWhatTheStandardSays) {
  for (const auto& [bytes, text] :
       {std::pair{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}}) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, HoldsAllBytesOfAllLengths) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << i;
    bytes.push_back(static_cast<char>(i * 7));
  }
}

TEST(Base64, AnythingElseIsNone) {
  for (const char* text : {"Z", "Zm9", "Zm9v=", "Zg==Zg==", "Z===", "====", "Zm 9", " Zm9", "Zm9\n",
                           "Zm-v", "Zm_v", "\xff\xff\xff\xff"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
  EXPECT_EQ(from_base64(std::string_view("Zm9\0", 4)), std::nullopt);
}

}  // namespace
}  // namespace ffdl::net
