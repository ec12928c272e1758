// Tests the end of a member that is cut off from the store for longer than its fence, over each
// back end of the host's memory and in each call that waits for others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/api/hierarchical_communicator.h"
#include "comm/api/interruptible_store.h"
#include "comm/network/links.h"
#include "ffdl/session.h"
#include "membership/keys.h"
#include "support/cut_store.h"
#include "support/slowness.h"
#include "support/small_model.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::CutStore;
using ffdl::testing::SmallModel;

constexpr Duration kFence = 2s;
constexpr Duration kSoon = 200ms;
constexpr int kTries = 5;
constexpr size_t kWeights = 100'001;  // a shorter all_reduce has one level

// The communicators of the threads of this process, one for each rank of a generation.
class LocalWorlds {
 public:
  Result<std::unique_ptr<Communicator>> take(const World& world) {
    const std::lock_guard lock(mutex_);
    auto& ranks = worlds_[world.generation];
    if (ranks.empty()) {
      FFDL_ASSIGN_OR_RETURN(ranks, make_local_communicators(world.generation, world.members));
    }
    return std::move(ranks[static_cast<size_t>(world.rank)]);
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::vector<std::unique_ptr<Communicator>>> worlds_;
};

// Connects hosts of two ranks each, which are all on this host. The last host of an odd world has
// one.
Result<std::unique_ptr<Communicator>> connect_two_levels(const World& world, Store& store,
                                                         Time deadline, const ConnectWatch& watch) {
  CommunicatorOptions options;
  options.backend = Backend::kShm;
  options.interrupt_check = watch.interrupt_check;
  const auto first = world.members.begin() + world.rank / 2 * 2;
  const auto last = world.members.end() - first > 2 ? first + 2 : world.members.end();
  const World inside = {.generation = world.generation,
                        .rank = world.rank % 2,
                        .members = {first, last},
                        .job = world.job};
  FFDL_ASSIGN_OR_RETURN(auto host, connect_communicator(inside, store, deadline, options));
  comm::InterruptibleStore interruptible(store, options.interrupt_check);
  FFDL_ASSIGN_OR_RETURN(
      auto met, comm::connect_tcp_links(world, interruptible, deadline, "127.0.0.1", options));
  auto made = std::make_unique<comm::HierarchicalCommunicator>(world, std::move(met.links),
                                                               std::move(host));
  FFDL_RETURN_IF_ERROR(made->open(deadline));
  return std::unique_ptr<Communicator>(std::move(made));
}

std::vector<std::string> names_of_ways() {
  std::vector<std::string> names = {"local", "shm", "tcp", "tls", "two levels"};
  if (comm::have_gloo().ok()) names.emplace_back("gloo");
  return names;
}

// A job over one back end whose member "a" is cut off. Its world is formed by all members.
class FencedJob {
 public:
  explicit FencedJob(std::string way) : way_(std::move(way)) {}

  int size() const { return way_ == "two levels" ? 4 : 2; }
  SessionOptions options_of(const std::string& id, Store& store) {
    SessionOptions options;
    options.self = {id, 0, "127.0.0.1"};
    options.membership.min_workers = size();
    options.membership.lease = 1s;
    options.membership.fence_after = kFence;
    options.membership.fence_margin = 100ms;
    options.on_fence = SessionOptions::OnFence::kEnd;
    options.communicator.tls = way_ == "tls";
    if (way_ == "shm") options.communicator.backend = Backend::kShm;
    if (way_ == "tcp" || way_ == "tls") options.communicator.backend = Backend::kTcp;
    if (way_ == "gloo") options.communicator.backend = Backend::kGloo;
    if (way_ == "local") {
      options.connect = [this](const World& world, Time, const ConnectWatch&) {
        return local_.take(world);
      };
    }
    if (way_ == "two levels") {
      options.connect = [&store](const World& world, Time deadline, const ConnectWatch& watch) {
        return connect_two_levels(world, store, deadline, watch);
      };
    }
    if (id != "a") {
      options.communicator.interrupt_check = [this] {
        return over.try_wait() ? Status(StatusCode::kCancelled, "the test is over") : Status();
      };
    }
    return options;
  }
  // Runs `body` for each member but "a", on threads that end() joins.
  void start_others(const std::function<void(const std::string& id)>& body) {
    for (int i = 1; i < size(); ++i) {
      others_.push_back(
          std::async(std::launch::async, [body, id = "b" + std::to_string(i)] { body(id); }));
    }
  }
  void end() {
    over.count_down();
    for (auto& other : others_) other.get();
  }

  Store& store() { return *store_; }
  CutStore& way_in() { return way_in_; }

  std::latch over{1};  // the test is
  std::atomic<bool> has_halted = false;

 private:
  const std::string way_;
  const std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
  CutStore way_in_{*store_};
  LocalWorlds local_;
  std::vector<std::future<void>> others_;
};

// Stops the member in one of its calls until the test is over. Has no data.
class Halting final : public StepParticipant {
 public:
  enum class In { kNothing, kStable, kSave };
  explicit Halting(FencedJob& job) : job_(job) {}

  void halt(In call) { call_ = call; }

  size_t record_bytes() const override { return 0; }
  void write_record(std::span<std::byte> /*record*/) override {}
  void applied(uint64_t /*step*/, const StepRecords& /*records*/) override {}
  void world_changed(const World& /*world*/) override {}
  void stable(uint64_t /*step*/) override { reach(In::kStable); }
  std::vector<std::byte> save() const override {
    reach(In::kSave);
    return {};
  }
  Status restore(std::span<const std::byte> /*bytes*/) override { return {}; }

 private:
  void reach(In call) const {
    if (call_ != call) return;
    job_.has_halted = true;
    job_.over.wait();
  }

  FencedJob& job_;
  std::atomic<In> call_ = In::kNothing;
};

// The second step of a job, before which "a" is cut off.
struct SecondStep {
  std::function<Status(Session&)> of_a = [](Session& session) {
    return session.end_step(1).status();
  };
  std::function<void(Session&, Halting&)> of_others = [](Session&, Halting&) {};
  bool others_stay = true;  // false: their sessions end once `of_others` has returned
  bool others_end = true;   // false: `of_others` waits for "a"
  uint64_t bucket_bytes = 0;
};

// `acted`: the other members have done their part.
void run_other(FencedJob& job, const std::string& id, const SecondStep& second, std::latch& is_cut,
               std::latch& acted) {
  SmallModel model(kWeights);
  Halting halting(job);
  SessionOptions options = job.options_of(id, job.store());
  options.participants = {&halting};
  options.bucket_bytes = second.bucket_bytes;
  auto session = Session::open(options, model, job.store());
  EXPECT_OK(session);
  if (session.ok()) {
    EXPECT_OK((*session)->end_step(1));
    is_cut.wait();
    second.of_others(**session, halting);
    if (!second.others_stay) session->reset();
  }
  acted.count_down();
  job.over.wait();
}

void expect_fenced(const Status& ended) {
  EXPECT_FAILS(ended, StatusCode::kCancelled, "did not answer");
}

// Returns the time from the cut to the end of the call. It is endless if the call ended before
// another member had halted, so that it is tried again.
Duration cut_before_second_step(const std::string& way, const SecondStep& second) {
  FencedJob job(way);
  std::latch is_cut(1);
  std::latch acted(job.size() - 1);
  job.start_others([&](const std::string& id) { run_other(job, id, second, is_cut, acted); });
  Duration took{};
  {
    SmallModel model(kWeights);
    Halting never(job);
    SessionOptions options = job.options_of("a", job.way_in());
    options.participants = {&never};
    options.bucket_bytes = second.bucket_bytes;
    const auto session = Session::open(options, model, job.way_in());
    EXPECT_OK(session);
    if (session.ok()) {
      EXPECT_OK((*session)->end_step(1));
      job.way_in().cut(CutStore::Way::kHangs);
      const Time began = system_runtime().now();
      is_cut.count_down();
      expect_fenced(second.of_a(**session));
      took = system_runtime().now() - began;
      expect_fenced((*session)->life_status());
      if (second.others_end) acted.wait();
      EXPECT_FALSE(second.others_end && job.has_halted);
      if (!second.others_end && !job.has_halted) took = Duration::max();
    } else {
      is_cut.count_down();
    }
    job.way_in().restore();
  }
  job.end();
  return took;
}

// Opens "a", and cuts it off once `is_due`. Returns the time from the cut to the end of open(),
// which also waits for the present call to the store: so the calls fail here.
Duration cut_while_it_opens(FencedJob& job, const SessionOptions& options, SmallModel& model,
                            const std::function<bool()>& is_due) {
  auto opening = std::async(std::launch::async, [&] {
    const Status opened = Session::open(options, model, job.way_in()).status();
    return std::pair(opened, system_runtime().now());
  });
  EXPECT_TRUE(comes_true(is_due));
  job.way_in().cut(CutStore::Way::kRefuses);
  const Time began = system_runtime().now();
  const auto [opened, ended] = opening.get();
  expect_fenced(opened);
  return ended - began;
}

// Runs `act` for each name at once, and again for those that were late: a busy machine is late now
// and then, not always. The fence is known exactly.
void end_with_their_fence(std::vector<std::string> names,
                          const std::function<Duration(const std::string&)>& act) {
  const Duration bound = kFence + testing::allowed(kSoon);
  std::map<std::string, Duration> late;
  for (int i = 0; i < kTries && !names.empty(); ++i) {
    std::map<std::string, std::future<Duration>> running;
    for (const std::string& name : names) {
      running[name] = std::async(std::launch::async, [&act, name] {
        SCOPED_TRACE(name);
        return act(name);
      });
    }
    for (auto& [name, its] : running) {
      late[name] = its.get();
      fmt::print("{}: {} ms after the cut\n", name, late[name] / 1ms);
    }
    std::erase_if(names, [&](const std::string& name) { return late[name] <= bound; });
  }
  for (const std::string& name : names) {
    ADD_FAILURE() << name << ": " << late[name] / 1ms << " ms after the cut, not " << bound / 1ms;
  }
}

void end_over_each_back_end(const SecondStep& second) {
  end_with_their_fence(names_of_ways(), [&](const std::string& way) {
    return cut_before_second_step(way, second);
  });
}

// Returns true if this member shares the host of "a" in two levels.
bool is_beside_a(const Session& session) {
  const World& world = session.world();
  const int other = world.rank ^ 1;
  return world.size() == 4 && world.members[static_cast<size_t>(other)].id == "a";
}

// The others have exchanged the messages of the step, and do not contribute. In two levels the host
// of "a" waits for the other one.
TEST(SessionFence, AMemberThatIsFencedInAnAllReduceIsCancelledAtOnce) {
  end_over_each_back_end({.of_others =
                              [](Session& session, Halting& halting) {
                                if (!is_beside_a(session)) halting.halt(Halting::In::kStable);
                                static_cast<void>(session.end_step(1).ok());
                              },
                          .others_end = false});
}

// A task of the session waits for the others, and the caller for the task.
TEST(SessionFence, AMemberThatIsFencedBesideItsThreadIsCancelledAtOnce) {
  end_over_each_back_end({.of_a = [](Session& session) -> Status {
                            FFDL_RETURN_IF_ERROR(session.begin_average(2, 1));
                            return session.end_step(1).status();
                          },
                          .bucket_bytes = 1});
}

// All members have settled the last step, and each writes that the job is done.
TEST(SessionFence, AMemberThatIsFencedAtTheEndIsCancelledAtOnce) {
  end_over_each_back_end(
      {.of_a = [](Session& session) { return session.finish(); },
       .of_others = [](Session& session, Halting&) { EXPECT_OK(session.finish()); }});
}

// Its collective fails long before the fence. The code is that of the fence all the same.
TEST(SessionFence, AMemberThatIsFencedAfterItLostItsPeersIsCancelledAtOnce) {
  end_over_each_back_end({.others_stay = false});
}

// Opens "a" again, whose first life ends after the first step. Another member begins to send it the
// state, and goes no further.
Duration cut_while_it_receives(const std::string& way) {
  FencedJob job(way);
  std::latch stepped(job.size() - 1);
  job.start_others([&](const std::string& id) {
    SmallModel model(kWeights);
    Halting halting(job);
    SessionOptions options = job.options_of(id, job.store());
    options.participants = {&halting};
    const auto session = Session::open(options, model, job.store());
    EXPECT_OK(session);
    if (session.ok()) EXPECT_OK((*session)->end_step(1));
    halting.halt(Halting::In::kSave);
    stepped.count_down();
    if (session.ok()) static_cast<void>((*session)->end_step(1).ok());
  });
  SmallModel model(kWeights);
  Halting never(job);
  SessionOptions options = job.options_of("a", job.way_in());
  options.participants = {&never};
  {
    const auto first = Session::open(options, model, job.way_in());
    EXPECT_OK(first);
    if (first.ok()) EXPECT_OK((*first)->end_step(1));
    stepped.wait();
  }
  const Duration took =
      cut_while_it_opens(job, options, model, [&] { return job.has_halted.load(); });
  job.end();
  return took;
}

TEST(SessionFence, AMemberThatIsFencedWhileItReceivesTheStateIsCancelledAtOnce) {
  end_with_their_fence(names_of_ways(), cut_while_it_receives);
}

TEST(SessionFence, AMemberThatIsFencedBeforeItsFirstWorldIsCancelledAtOnce) {
  end_with_their_fence({"alone"}, [](const std::string& way) {
    FencedJob job(way);
    SmallModel model(kWeights);
    const std::string key = membership::Keys("job").candidate("a");
    return cut_while_it_opens(job, job.options_of("a", job.way_in()), model,
                              [&] { return job.store().get(key).ok(); });
  });
}

}  // namespace
}  // namespace ffdl
