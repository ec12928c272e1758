#include "elastic/session/world_change.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "elastic/session/session_connect.h"
#include "membership/keys.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/small_model.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using ffdl::testing::patient;
using ffdl::testing::Scribe;
using ffdl::testing::SmallModel;
using ffdl::testing::soon;
using Entry = WorldChange::Entry;
using Old = WorldChange::Old;

SessionOptions options_of(const std::string& id, Scribe& scribe) {
  SessionOptions options;
  options.self.id = id;
  options.membership = patient(1);
  options.participants = {&scribe};
  options.verify_state = true;
  return options;
}

// A member that changes worlds, without the loop of a session.
class Changing {
 public:
  Changing(Store& store, const std::string& id, float start = 1)
      : model(101, start), options(options_of(id, scribe)), list(options.participants) {
    EXPECT_OK(life.join(store, options.self));
    change = std::make_unique<WorldChange>(
        WorldChange::Parts{options, system_runtime(), store, life, held, *exchange, nullptr,
                           departure},
        WorldChange::Settings{make_factory(options, -1, store), 1, false});
  }
  ~Changing() {
    change->abort();
    change->stop();
  }

  // Enters the next world that works, and uses it.
  Entry enter(Old old = Old::kKeep) {
    const auto entered = change->recover(old);
    EXPECT_OK(entered);
    if (!entered.ok() || *entered == Entry::kLeft) return Entry::kLeft;
    EXPECT_FALSE(change->is_active());
    return *entered;
  }
  // Takes the step that makes a world count. All its members call it.
  void activate() {
    change->wait_for_giving();
    uint64_t mine = 1;
    uint64_t all[2] = {};
    const int size = change->world().size();
    ASSERT_OK(change->communicator()->all_gather(
        as_bytes(&mine, sizeof mine), as_bytes(all, static_cast<uint64_t>(size) * sizeof mine),
        soon()));
    ASSERT_OK(change->become_active());
    EXPECT_TRUE(change->is_active());
  }

  Scribe scribe{1};
  SmallModel model;
  const SessionOptions options;
  const ParticipantList list;
  HostMemory memory{};
  Life life{options, list, system_runtime()};
  HeldState held{model, memory, list};
  Departure departure{options, life, held, nullptr, system_runtime()};
  std::unique_ptr<GradientExchange> exchange = GradientExchange::create(
      {.participants = list}, {system_runtime(), [] { return Status(); }, soon,
                               [] { return Result<std::shared_ptr<Communicator>>(nullptr); }});
  std::unique_ptr<WorldChange> change{};
};

class WorldChangeTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
};

SessionOptions options_of_two(const std::string& id, Scribe& scribe) {
  SessionOptions options = options_of(id, scribe);
  options.membership.min_workers = 2;
  options.membership.lease = std::chrono::seconds(1);
  options.recovery_timeout = std::chrono::seconds(10);
  return options;
}

// It stands still for longer than it would wait for a second member.
TEST(StandingStill, AMemberThatWaitsForAWorldHasMissedNoDeadline) {
  const TempFolder folder;
  const std::string url = "file://" + folder.file("store");
  const pid_t waiting = testing::fork_child();
  if (waiting == 0) {
    Scribe scribe{1};
    SmallModel model;
    auto store = open_store(url, system_runtime());
    const auto opened = Session::open(options_of_two("a", scribe), model, **store);
    ::_exit(opened.ok() ? 0 : 1);
  }
  ASSERT_OK_AND_ASSIGN(const auto store, open_store(url, system_runtime()));
  ASSERT_TRUE(comes_true([&] { return store->get(membership::Keys("job").leader()).ok(); }));
  testing::stop_process(waiting);
  system_runtime().make_event()->wait_until(deadline_in(std::chrono::seconds(11)));
  ::kill(waiting, SIGCONT);
  Scribe scribe{1};
  SmallModel model;
  const auto opened = Session::open(options_of_two("b", scribe), model, *store);
  EXPECT_OK(opened);
  EXPECT_EQ(testing::exit_code(waiting), 0);
}

TEST_F(WorldChangeTest, ANewcomerReceivesTheStateAndTheHolderKeepsIt) {
  Changing a(*store_, "a");
  EXPECT_EQ(a.enter(), Entry::kHealed);  // a lineage begins
  a.activate();
  EXPECT_TRUE(a.held.label().holds);
  a.model.compute(1);
  a.model.apply();
  a.held.advance(77);

  Changing b(*store_, "b", 5);
  std::thread newcomer([&] {
    EXPECT_EQ(b.enter(), Entry::kHealed);
    b.activate();
  });
  ASSERT_TRUE(comes_true([&] { return a.change->is_next_ready(); }));
  const auto changed = a.change->change_over(a.change->ready());
  EXPECT_TRUE(changed.ok() && *changed == Entry::kSame) << changed.status().message();
  a.activate();
  newcomer.join();

  EXPECT_EQ(b.model.weights(), a.model.weights());
  EXPECT_EQ(b.scribe.sum(), a.scribe.sum());
  EXPECT_EQ(b.held.label().step, 1U);
  EXPECT_EQ(b.held.label().history, 77U);
  EXPECT_EQ(b.held.label().lineage, a.held.label().lineage);
  EXPECT_EQ(b.change->world().size(), 2);
  EXPECT_EQ(a.change->stats().worlds, 2U);
  EXPECT_EQ(a.change->stats().bytes_sent, b.change->stats().bytes_received);
  EXPECT_EQ(b.change->stats().bytes_received, 2 * 101 * sizeof(float));
  EXPECT_EQ(b.change->stats().healed, 1U);
}

TEST_F(WorldChangeTest, AMemberThatAskedLeavesWhereItRecovers) {
  Changing a(*store_, "a");
  EXPECT_EQ(a.enter(), Entry::kHealed);
  a.activate();
  a.life.ask_to_leave();
  const auto left = a.change->recover(Old::kAbort);
  EXPECT_TRUE(left.ok() && *left == Entry::kLeft) << left.status().message();
  EXPECT_EQ(a.life.over().code(), StatusCode::kCancelled);
}

// The job's end is found by the label alone, without a further world.
TEST_F(WorldChangeTest, AMemberWithTheLastStateHasFinished) {
  Changing a(*store_, "a");
  EXPECT_EQ(a.enter(), Entry::kHealed);
  a.activate();
  ASSERT_OK(a.departure.complete());
  const auto finished = a.change->recover(Old::kKeep);
  EXPECT_TRUE(finished.ok() && *finished == Entry::kFinished) << finished.status().message();
  EXPECT_EQ(a.change->stats().worlds, 1U);
}

}  // namespace
}  // namespace ffdl::elastic
