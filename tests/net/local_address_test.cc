#include "net/local_address.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

TEST(LocalAddress, OfAServerOnLoopbackIsNone) {
  for (const char* host : {"127.0.0.1", "127.3.2.1", "localhost", "::1"}) {
    EXPECT_EQ(address_towards({host, 4242}), "") << host;
  }
}

TEST(LocalAddress, OfANameThatDoesNotResolveIsNone) {
  EXPECT_EQ(address_towards({"no-such-host.invalid", 4242}), "");
}

TEST(LocalAddress, OfAnInterfaceIsFoundByNameAndByNetwork) {
  EXPECT_EQ(*address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(*address_of_interface("127.0.0.0/8"), "127.0.0.1");
  EXPECT_EQ(*address_of_interface("127.0.0.1/32"), "127.0.0.1");
}

TEST(LocalAddress, ThisHostIsKnownByEachOfItsAddresses) {
  for (const char* host : {"127.0.0.1", "127.3.2.1", "localhost", "::1"}) {
    EXPECT_TRUE(is_this_host(host)) << host;
  }
  const auto all = addresses_of_this_host();
  EXPECT_NE(std::find(all.begin(), all.end(), "127.0.0.1"), all.end());
  for (const std::string& address : all) EXPECT_TRUE(is_this_host(address)) << address;
  for (const char* host : {"203.0.113.7", "2001:db8::7", "no-such-host.invalid"}) {
    EXPECT_FALSE(is_this_host(host)) << host;
  }
}

TEST(LocalAddress, AnInterfaceThatIsNotThereIsRefusedWithThoseThatAre) {
  for (const char* name : {"", "no-such0", "203.0.113.0/24", "127.0.0.1", "10.0.0.0/99", "lo/8"}) {
    EXPECT_FAILS(address_of_interface(name), StatusCode::kInvalidArgument, "lo 127.0.0.1");
  }
}

}  // namespace
}  // namespace ffdl::net
