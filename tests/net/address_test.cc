#include "net/address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

TEST(Address, IsHostAndPort) {
  for (const char* text : {"127.0.0.1:2990", "node7:1", "[::1]:65535", "[fe80::1]:0"}) {
    ASSERT_OK_AND_ASSIGN(const Address address, parse_address(text));
    EXPECT_EQ(address.text(), text);
  }
  EXPECT_EQ(*parse_address("[::1]:7"), (Address{"::1", 7}));
}

TEST(Address, AnythingElseIsNone) {
  for (const char* text : {"", ":", "host", "host:", ":80", "host:65536", "host:-1", "host:8x",
                           "::1:80", "[]:80", "host: 80"}) {
    EXPECT_FAILS(parse_address(text), StatusCode::kInvalidArgument, "it is not host:port");
  }
}

TEST(Address, KnowsWhetherOthersReachIt) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE((Address{host, 1}.is_loopback())) << host;
  }
  // A name is meant for other machines, whatever it resolves to here.
  char own[256] = {};
  ASSERT_EQ(gethostname(own, sizeof own - 1), 0);
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "no such host", "localhost.example",
                           static_cast<const char*>(own)}) {
    EXPECT_FALSE((Address{host, 1}.is_loopback())) << host;
  }
}

}  // namespace
}  // namespace ffdl::net
