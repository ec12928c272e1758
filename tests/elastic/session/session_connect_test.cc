#include "elastic/session/session_connect.h"

#include <gtest/gtest.h>

#include "support/forwarding_store.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using testing::soon;

// A store that this host reaches from that address.
class StoreAway final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::string local_address() const override { return "10.0.0.7"; }
};

TEST(SessionConnect, AMemberHasTheAddressAtWhichItIsReached) {
  SessionOptions options;
  options.self = {"a", 0, ""};
  ASSERT_OK_AND_ASSIGN(const auto inner, open_store("mem://", system_runtime()));
  EXPECT_EQ(named_member(options, *inner)->address, "");
  const StoreAway store(*inner);
  EXPECT_EQ(named_member(options, store)->address, "10.0.0.7");
  options.communicator.address = "10.0.0.1";
  EXPECT_EQ(named_member(options, store)->address, "10.0.0.1");
  options.self.address = "of the user";
  EXPECT_EQ(named_member(options, store)->address, "of the user");
}

TEST(SessionConnect, AFactoryOfTheOptionsIsTaken) {
  SessionOptions options;
  options.connect = [](const World&, Time, const ConnectWatch&) {
    return Result<std::unique_ptr<Communicator>>(Status(StatusCode::kExhausted, "the test's"));
  };
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_FAILS(make_factory(options, -1, *store)(testing::world_of(2), soon(), {}),
               StatusCode::kExhausted, "the test's");
}

TEST(SessionConnect, BothLooksEndTheConnecting) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const auto cancel = [] { return Status(StatusCode::kCancelled, "the test looked"); };
  SessionOptions options;
  const auto of_session = make_factory(options, -1, *store);
  EXPECT_FAILS(of_session(testing::world_of(2), soon(), {.interrupt_check = cancel}),
               StatusCode::kCancelled, "the test looked");
  options.communicator.interrupt_check = cancel;
  World other = testing::world_of(2);
  other.generation = 10;
  EXPECT_FAILS(make_factory(options, -1, *store)(other, soon(),
                                                 {.interrupt_check = [] { return Status(); }}),
               StatusCode::kCancelled, "the test looked");
}

}  // namespace
}  // namespace ffdl::elastic
