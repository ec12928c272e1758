#include "net/listener.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

TEST(Listener, TellsThePortThatItGot) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  ASSERT_OK_AND_ASSIGN(auto listener, Listener::open(*loop, {"127.0.0.1", 0}));
  EXPECT_NE(listener->address().port, 0);
  EXPECT_EQ(listener->address().host, "127.0.0.1");
  loop->stop();
}

TEST(Listener, APortIsForOneAndFreeAfterwards) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  ASSERT_OK_AND_ASSIGN(auto listener, Listener::open(*loop, {"127.0.0.1", 0}));
  const Address address = listener->address();
  EXPECT_FAILS(Listener::open(*loop, address), StatusCode::kUnavailable, address.text());
  loop->stop();
  listener->close();
  EXPECT_OK(Listener::open(*loop, address));
}

TEST(Listener, AnAddressOfAnotherMachineIsNoPlaceToListen) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  EXPECT_FAILS(Listener::open(*loop, {"192.0.2.1", 0}), StatusCode::kInvalidArgument,
               "an address of this machine");
  EXPECT_FAILS(Listener::open(*loop, {"no such host", 0}), StatusCode::kInvalidArgument,
               "an address of this machine");
  loop->stop();
}

}  // namespace
}  // namespace ffdl::net
