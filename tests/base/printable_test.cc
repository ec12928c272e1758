#include "base/printable.h"

#include <gtest/gtest.h>

namespace ffdl::base {
namespace {

TEST(Printable, TextStaysAsItIs) {
  for (const char* text : {"", "worker-3", "a 'b' \\x1b {}", "größe 日本 🙂", "\xc2\xa0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ControlsBecomeEscapes) {
  const struct {
    std::string text;
    const char* shown;
  } cases[] = {
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"},
      {std::string("\0x", 2), "\\x00x"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\u{9b}31m"},  // CSI as one character
      {"\xe2\x80\xae"
       "txt.exe",
       "\\u{202e}txt.exe"},
      {"\xe2\x80\xa8", "\\u{2028}"},
      {"\xe2\x81\xa6", "\\u{2066}"},
  };
  for (const auto& test : cases) EXPECT_EQ(printable(test.text), test.shown);
}

TEST(Printable, WhatIsNotUtf8BecomesEscapes) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // an overlong encoding
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // an overlong encoding
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xff\xe2\x82\xac"), "\\xff€");
}

// No byte of a result is a control character, whatever the text is.
TEST(Printable, NoControlIsLeft) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string shown = printable(std::string{static_cast<char>(a), static_cast<char>(b)});
      for (size_t i = 0; i < shown.size(); ++i) {
        const auto byte = static_cast<unsigned char>(shown[i]);
        ASSERT_TRUE(byte >= 0x20 && byte != 0x7f) << a << " " << b;
        const bool is_c1 = byte == 0xc2 && static_cast<unsigned char>(shown[i + 1]) < 0xa0;
        ASSERT_FALSE(is_c1) << a << " " << b;
      }
    }
  }
}

TEST(Printable, AcceptsWhatAStrictDecoderAccepts) {
  for (const char* text :
       {"", "plain", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << printable(text);
  }
  for (const char* text : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2g", "\xe0\x9f\xbf",
                           "\xe1\x80", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80", "\xff", "a\xe2\x82"}) {
    EXPECT_FALSE(is_utf8(text)) << printable(text);
  }
}

}  // namespace
}  // namespace ffdl::base
