// Tests the proofs of deaths of processes on the same host.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ffdl/membership.h"
#include "membership/keys.h"
#include "support/forwarding_runtime.h"
#include "support/patient_membership.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::soon;

// Returns options with a fence that no test reaches.
MembershipOptions without_fence() {
  MembershipOptions options = testing::patient_membership(5s);
  options.fence_after = 1h;
  options.fence_margin = 2min;
  return options;
}

// A process of its own, beside one that has ended on its host.
class OwnProcess final : public testing::ForwardingRuntime {
 public:
  explicit OwnProcess(std::string mark, std::string ended = "none")
      : mark_(std::move(mark)), ended_(std::move(ended)) {}
  std::string process_mark() override { return mark_; }
  bool has_ended(std::string_view process_mark) override { return process_mark == ended_; }

 private:
  const std::string mark_;
  const std::string ended_;
};

class MembershipDeaths : public ::testing::Test {
 protected:
  MembershipDeaths() : store_(open_store("mem://", system_runtime()).value()) {}

  std::unique_ptr<Membership> join(const std::string& id, Runtime& runtime) {
    auto joined = Membership::join(*store_, runtime, {id, 0, id + ":1"}, without_fence());
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // The process "dead" trains alone under this id, and dies. Returns its world.
  World die(const std::string& id) {
    OwnProcess process("dead");
    auto member = join(id, process);
    const auto world = member->wait_world_after(0, soon());
    EXPECT_OK(world);
    if (!world.ok()) return {};
    EXPECT_OK(member->activate(world->generation, soon()));
    EXPECT_OK(member->wait_active(world->generation, soon()));
    member.reset();
    EXPECT_OK(store_->end_lease(store_->get(membership::Keys("job").candidate(id))->lease));
    return *world;
  }

  const std::unique_ptr<Store> store_;
};

// A member need not lead to see that a process of its host has ended.
TEST_F(MembershipDeaths, TheEndOfItsProcessProvesADeathOnTheSameHost) {
  const World world = die("dead");
  OwnProcess elsewhere("elsewhere");
  const auto leader = join("leader", elsewhere);
  EXPECT_FAILS(leader->wait_world_after(world.generation, deadline_in(300ms)),
               StatusCode::kTimeout, "job 'job'");
  EXPECT_TRUE(leader->is_leader());
  OwnProcess beside("beside", "dead");
  const auto other = join("other", beside);
  ASSERT_OK_AND_ASSIGN(const World next, leader->wait_world_after(world.generation, soon()));
  EXPECT_EQ(next.lineage, world.lineage + 1);
}

// Its own record replaces the mark of the process that had its id.
TEST_F(MembershipDeaths, TheNextLifeProvesTheDeathOfTheOneBefore) {
  const World world = die("a");
  OwnProcess again("again", "dead");
  const auto next = join("a", again);
  ASSERT_OK_AND_ASSIGN(const World anew, next->wait_world_after(world.generation, soon()));
  EXPECT_EQ(anew.lineage, world.lineage + 1);
}

// A process that only stands still keeps its state.
TEST_F(MembershipDeaths, WhoseProcessEndsLaterIsProvedDeadThen) {
  class EndsLater final : public testing::ForwardingRuntime {
   public:
    std::string process_mark() override { return "beside"; }
    bool has_ended(std::string_view process_mark) override {
      return process_mark == "dead" && looks_.fetch_add(1) >= 3;
    }
    int looks() const { return looks_.load(); }

   private:
    std::atomic<int> looks_ = 0;
  };
  const World world = die("a");
  EndsLater runtime;
  const auto other = join("b", runtime);
  ASSERT_OK_AND_ASSIGN(const World anew, other->wait_world_after(world.generation, soon()));
  EXPECT_EQ(anew.lineage, world.lineage + 1);
  EXPECT_EQ(runtime.looks(), 4);
}

}  // namespace
}  // namespace ffdl
