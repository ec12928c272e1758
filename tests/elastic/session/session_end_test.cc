#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "ffdl/membership.h"
#include "ffdl/session.h"
#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/small_model.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::SmallModel;

// Leads a job by hand, as a member that does not train.
class FakeLeader {
 public:
  explicit FakeLeader(Store& store) : store_(store) {
    const LeaseId lease = store.grant_lease(1h).value();
    const membership::CandidateRecord record = {.incarnation = 1, .address = "127.0.0.1"};
    EXPECT_OK(store.put(keys_.candidate("c"), encode(record), lease));
    EXPECT_OK(store.put(keys_.leader(), membership::encode_leader(kSelf), lease));
  }
  // Forms the next world with these members.
  void form(std::vector<Member> members) {
    auto entry = store_.get(keys_.world());
    membership::WorldRecord next = {.lineage = 1, .term = 1, .leader = kSelf};
    if (entry.ok()) next = membership::parse_world(entry->value).value();
    ++next.generation;
    next.phase = Phase::kForming;
    next.members = std::move(members);
    EXPECT_OK(store_.put(keys_.world(), encode(next), kNoLease));
  }

  inline static const Member kSelf = {"c", 1, "127.0.0.1"};

 private:
  Store& store_;
  const membership::Keys keys_{"job"};
};

// Connects a world that begins fresh, and fails for one that passes the last state on.
Result<std::unique_ptr<Communicator>> connect_first_worlds(const World& world, Time /*deadline*/,
                                                           const ConnectWatch& watch) {
  while (!world.begins_anew()) {
    FFDL_RETURN_IF_ERROR(watch.interrupt_check());
    std::this_thread::yield();
  }
  FFDL_ASSIGN_OR_RETURN(auto all, make_local_communicators(world.generation, world.members));
  return std::move(all[static_cast<size_t>(world.rank)]);
}

// A job may begin again while a member still serves its last state.
TEST(SessionEnd, AMemberKeepsItsLastStateThoughTheJobBeginsAgain) {
  const auto store = open_store("mem://", system_runtime()).value();
  FakeLeader leader(*store);
  const Member self = {"a", 1, "127.0.0.1"};
  leader.form({self});
  SmallModel model(100);
  SessionOptions options;
  options.self = self;
  options.membership.lease = 10s;
  options.membership.fence_after = 20s;
  options.connect = connect_first_worlds;
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store));
  model.compute(1);
  ASSERT_OK(session->end_step(1));
  const auto last = model.weights();
  auto finishing = std::async(std::launch::async, [&] { return session->finish(); });
  ASSERT_TRUE(comes_true([&] { return read_job(*store, "job")->completion.has_value(); }));
  leader.form({self, FakeLeader::kSelf});
  ASSERT_OK(begin_again(*store, "job"));
  EXPECT_OK(finishing.get());
  EXPECT_TRUE(session->is_finished());
  EXPECT_EQ(model.weights(), last);
}

}  // namespace
}  // namespace ffdl
