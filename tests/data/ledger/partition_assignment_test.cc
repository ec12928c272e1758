#include "data/ledger/partition_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "data/ledger_text.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using testing::text_of;

constexpr int kNobody = -1;
constexpr int kAnother = 100;

// The state that all workers see.
struct Partitions {
  explicit Partitions(size_t count) : committed(count), holder(count, kNobody) {}

  std::vector<uint64_t> committed;
  std::vector<int> holder;
};

// One worker's view. Its used samples are committed by publish(), and are void when it dies.
class FakeBoard final : public PartitionBoard {
 public:
  FakeBoard(Partitions& all, int self) : all_(all), self_(self) {}
  ~FakeBoard() override { std::replace(all_.holder.begin(), all_.holder.end(), self_, kNobody); }

  uint64_t committed(uint32_t p) const override { return all_.committed[p]; }
  Result<uint64_t> used(uint32_t p) const override {
    const auto own = used_.find(p);
    return std::max(own == used_.end() ? 0 : own->second, all_.committed[p]);
  }
  bool is_free(uint32_t p) const override { return all_.holder[p] == kNobody; }
  Result<bool> hold(uint32_t p) override {
    if (before_hold) before_hold(p);
    if (all_.holder[p] != kNobody && all_.holder[p] != self_) return false;
    left_.erase(p);
    all_.holder[p] = self_;
    return true;
  }
  Status let_go(uint32_t p) override {
    left_.insert(p);
    if (used_.empty()) publish();
    return {};
  }

  void use(const SampleRange& range) {
    EXPECT_EQ(all_.holder[range.partition], self_) << "used without the lock";
    EXPECT_EQ(*used(range.partition), range.begin) << "repeated, or left out";
    used_[range.partition] = range.end;
  }
  void publish() {
    for (const auto& [p, end] : used_) all_.committed[p] = end;
    used_.clear();
    for (const uint32_t p : left_) all_.holder[p] = kNobody;
    left_.clear();
  }

  std::function<void(uint32_t)> before_hold;

 private:
  Partitions& all_;
  const int self_;
  std::map<uint32_t, uint64_t> used_;
  std::set<uint32_t> left_;
};

// Parses partitions of four samples each: '.' is free, 'o' held by another worker, 'x' finished,
// '2' free and half done.
Partitions partitions_of(const std::string& text) {
  Partitions all(text.size());
  for (size_t p = 0; p < text.size(); ++p) {
    if (text[p] == 'x') all.committed[p] = 4;
    if (text[p] == 'o') all.holder[p] = kAnother;
    if (text[p] >= '0' && text[p] <= '9') all.committed[p] = static_cast<uint64_t>(text[p] - '0');
  }
  return all;
}

DataSet data_of(const std::string& text) {
  return {.samples = 4 * text.size(), .partition_samples = 4, .shuffle = Shuffle::kNone};
}

struct Case {
  std::string board;
  uint64_t wanted;
  std::string leases;
  uint64_t epoch = 0;
};

TEST(HandOut, ChoosesByLooking) {
  const std::vector<Case> cases = {
      {"....", 1, "0:0-4"},
      {"....", 2, "0:0-4 1:0-4"},
      {"....", 3, "0:0-4 1:0-4 2:0-4"},
      {"....", 9, "0:0-4 1:0-4 2:0-4"},  // the last one is left for a worker without any
      {"x2..", 1, "1:2-4"},
      {"o...", 2, "1:0-4 2:0-4"},
      {"oo..", 2, "2:0-4"},
      {"ooo.", 2, "3:0-4"},  // but not if this worker has none
      {"x.o.", 2, "1:0-4"},
      {"oooo", 2, ""},
      {"xxxo", 2, ""},
      {"xx3x", 2, "2:3-4"},
      {"xxxx", 1, "0:4-8", 1},
      {"8xxx", 2, "1:4-8 2:4-8", 1},
      {"8888", 1, "", 2},  // all is done
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.board + " " + std::to_string(each.wanted));
    Partitions all = partitions_of(each.board);
    FakeBoard board(all, 0);
    HandOut hand_out(data_of(each.board), 2);
    hand_out.begin(board);
    ASSERT_OK(hand_out.look(board, each.wanted, {}, nullptr));
    EXPECT_EQ(text_of(hand_out.leases()), each.leases);
    EXPECT_EQ(hand_out.epoch(), each.epoch);
    EXPECT_EQ(hand_out.is_done(), each.epoch == 2);
  }
}

TEST(HandOut, LooksAgainAtWhatItHolds) {
  Partitions all = partitions_of("....");
  FakeBoard board(all, 0);
  HandOut hand_out(data_of("...."), 1);
  hand_out.begin(board);
  // Another worker uses the partition between the check and the lock, and leaves.
  board.before_hold = [&](uint32_t p) { all.committed[p] = p == 0 ? 3 : p == 1 ? 4 : 0; };
  ASSERT_OK(hand_out.look(board, 2, {}, nullptr));
  EXPECT_EQ(text_of(hand_out.leases()), "0:3-4 2:0-4");
  EXPECT_EQ(all.holder[1], kNobody);
  EXPECT_EQ(hand_out.committed(board), 7U);
}

TEST(HandOut, GoesOnWhereAnotherWasFaster) {
  Partitions all = partitions_of("..");
  FakeBoard board(all, 0);
  HandOut hand_out(data_of(".."), 1);
  hand_out.begin(board);
  board.before_hold = [&](uint32_t p) {
    if (p == 0) all.holder[p] = kAnother;
  };
  ASSERT_OK(hand_out.look(board, 1, {}, nullptr));
  EXPECT_EQ(text_of(hand_out.leases()), "1:0-4");
}

TEST(HandOut, GivesBackWhatOthersWaitFor) {
  Partitions all = partitions_of("....");
  FakeBoard board(all, 0);
  HandOut hand_out(data_of("...."), 1);
  hand_out.begin(board);
  ASSERT_OK(hand_out.look(board, 3, {}, nullptr));
  EXPECT_EQ(text_of(hand_out.leases()), "0:0-4 1:0-4 2:0-4");
  all.holder[3] = kAnother;
  const std::vector<SampleRange> in_use = {{0, 2, 4}, {1, 0, 2}};
  ASSERT_OK(hand_out.look(board, 3, in_use, nullptr));
  EXPECT_EQ(text_of(hand_out.leases()), "0:0-4 1:0-4");
  for (const SampleRange& range : {SampleRange{0, 0, 4}, SampleRange{1, 0, 2}}) board.use(range);
  board.publish();
  ASSERT_OK(hand_out.look(board, 3, {}, nullptr));
  EXPECT_EQ(text_of(hand_out.leases()), "1:2-4");
  EXPECT_TRUE(board.is_free(2));
}

TEST(HandOut, AnEpochEndsWhenAllIsCommitted) {
  Partitions all = partitions_of("..");
  FakeBoard board(all, 0);
  HandOut hand_out(data_of(".."), 2);
  hand_out.begin(board);
  int ended = 0;
  const auto look = [&] { return hand_out.look(board, 2, {}, [&] { ++ended; }); };
  ASSERT_OK(look());
  board.use({0, 0, 4});
  ASSERT_OK(look());
  board.use({1, 0, 4});
  ASSERT_OK(look());
  EXPECT_EQ(text_of(hand_out.leases()), "");
  EXPECT_EQ(hand_out.epoch(), 0U) << "what was used is not committed";
  EXPECT_EQ(all.holder, std::vector<int>({0, 0}));
  board.publish();
  ASSERT_OK(look());
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(text_of(hand_out.leases()), "0:4-8");
}

// One of several workers that take, use and publish at random.
struct BoardWorker {
  BoardWorker(Partitions& all, int self, const DataSet& data, uint64_t epochs)
      : board(all, self), hand_out(data, epochs) {
    hand_out.begin(board);
  }

  FakeBoard board;
  HandOut hand_out;
};

// Expects that all samples of earlier epochs are committed.
void expect_epoch_has_begun(const Partitions& all, const DataSet& data, const SampleRange& range) {
  const uint64_t epoch = range.begin / data.samples_of(range.partition);
  for (uint32_t p = 0; p < data.partitions(); ++p) {
    ASSERT_GE(all.committed[p], data.use(p, epoch).begin);
  }
}

void play(uint64_t seed) {
  constexpr uint64_t kEpochs = 3;
  constexpr int kWorkers = 3;
  std::minstd_rand random(static_cast<uint32_t>(seed + 1));
  const DataSet data{.samples = 33, .partition_samples = 1 + seed % 9, .seed = seed};
  Partitions all(data.partitions());
  std::vector<std::unique_ptr<BoardWorker>> workers(kWorkers);
  const auto is_done = [&] {
    for (uint32_t p = 0; p < data.partitions(); ++p) {
      if (all.committed[p] < kEpochs * data.samples_of(p)) return false;
    }
    return true;
  };
  for (int turn = 0; !is_done(); ++turn) {
    ASSERT_LT(turn, 20'000) << "they do not get on";
    const auto self = static_cast<size_t>(random() % kWorkers);
    auto& worker = workers[self];
    if (!worker || random() % 40 == 0) {
      worker.reset();  // a death: used but unpublished samples are void
      worker = std::make_unique<BoardWorker>(all, static_cast<int>(self), data, kEpochs);
    }
    ASSERT_OK(worker->hand_out.look(worker->board, 1 + random() % 3, {}, nullptr));
    const auto& leases = worker->hand_out.leases();
    if (leases.empty() || random() % 3 == 0) worker->board.publish();
    if (leases.empty()) continue;
    const SampleRange& lease = leases.front();
    const SampleRange range{lease.partition, lease.begin,
                            lease.begin + 1 + random() % (lease.end - lease.begin)};
    expect_epoch_has_begun(all, data, range);
    worker->board.use(range);
  }
  for (uint32_t p = 0; p < data.partitions(); ++p) {
    EXPECT_EQ(all.committed[p], kEpochs * data.samples_of(p));
  }
}

TEST(HandOut, WorkersThatDieUseEachSampleOncePerEpoch) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    play(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ffdl::data
