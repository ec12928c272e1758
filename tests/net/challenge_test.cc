#include "net/challenge.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Equals Python's hmac over the parts, each after its length.
TEST(Challenge, IsHmacSha256) {
  EXPECT_EQ(hex(mac_of("key", {"part", ""})),
            "fd6844ee0dd7fec2d3bca0eb6d0f03de8413cab42fff3978ca6e412888b634c7");
}

TEST(Challenge, DependsOnTheSecretAndOnEachPart) {
  const std::string mac = mac_of("secret", {"client", "ab", "c"});
  EXPECT_TRUE(same_mac(mac, mac_of("secret", {"client", "ab", "c"})));
  EXPECT_FALSE(same_mac(mac, mac_of("secrea", {"client", "ab", "c"})));
  EXPECT_FALSE(same_mac(mac, mac_of("", {"client", "ab", "c"})));
  EXPECT_FALSE(same_mac(mac, mac_of("secret", {"server", "ab", "c"})));
  EXPECT_FALSE(same_mac(mac, mac_of("secret", {"client", "a", "bc"})));
  EXPECT_FALSE(same_mac(mac, mac.substr(1)));
  EXPECT_FALSE(same_mac(mac, ""));
}

TEST(Challenge, NoTwoNoncesAreEqual) {
  ASSERT_OK_AND_ASSIGN(const std::string one, make_nonce());
  ASSERT_OK_AND_ASSIGN(const std::string other, make_nonce());
  EXPECT_EQ(one.size(), kNonceBytes);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace ffdl::net
