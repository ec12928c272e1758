#include "ffdl/data/batch_ring.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "data/batch_text.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/shared_board.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::exit_code;
using testing::is_text_batch;
using testing::soon;
using testing::TextBatch;

constexpr BatchRingOptions kSmall = {.slots = 3, .slot_bytes = 4096};

std::unique_ptr<BatchRing> make_ring(const BatchRingOptions& options = kSmall) {
  auto ring = BatchRing::create({.dtype = "|u1"}, options);
  EXPECT_OK(ring);
  return std::move(ring).value();
}

TEST(BatchRing, GivesEveryConsumerEveryBatchInOrder) {
  const auto ring = make_ring();
  ASSERT_OK_AND_ASSIGN(const auto one, BatchConsumer::attach(ring->place()));
  ASSERT_OK_AND_ASSIGN(const auto other, BatchConsumer::attach(ring->place()));
  EXPECT_EQ(one->format().dtype, "|u1");
  for (uint64_t number = 0; number < 20; ++number) {
    ASSERT_OK(ring->put(TextBatch(number).batch, soon()));
    for (const auto& consumer : {one.get(), other.get()}) {
      ASSERT_OK_AND_ASSIGN(const auto batch, consumer->next(soon()));
      EXPECT_EQ(batch->number, number);
      EXPECT_TRUE(is_text_batch(*batch, number));
    }
  }
  ring->finish();
  ASSERT_OK_AND_ASSIGN(const auto nothing, one->next(soon()));
  EXPECT_EQ(nothing, nullptr);
  EXPECT_FAILS(ring->put(TextBatch(20).batch, soon()), StatusCode::kInvalidArgument, "finish()");
  const BatchRingStats stats = ring->stats();
  EXPECT_EQ(stats.batches, 20);
  EXPECT_EQ(stats.consumers, 2);
  EXPECT_EQ(stats.abandoned, 0);
}

TEST(BatchRing, ABatchStaysUntilItGoes) {
  auto ring = make_ring();
  auto consumer = std::move(BatchConsumer::attach(ring->place())).value();
  for (uint64_t number = 0; number < 3; ++number) {
    ASSERT_OK(ring->put(TextBatch(number).batch, soon()));
  }
  ASSERT_OK_AND_ASSIGN(auto first, consumer->next(soon()));
  ASSERT_OK_AND_ASSIGN(auto second, consumer->next(soon()));
  second.reset();  // the one before it is still in use
  EXPECT_FAILS(ring->put(TextBatch(3).batch, deadline_in(0ms)), StatusCode::kTimeout,
               "consumer 0 of 1");
  EXPECT_EQ(ring->stats().batches, 3) << "it had no effect";
  first.reset();  // releases both
  ASSERT_OK(ring->put(TextBatch(3).batch, soon()));
  ASSERT_OK(ring->put(TextBatch(4).batch, soon()));
  EXPECT_FAILS(ring->wait_used(deadline_in(0ms)), StatusCode::kTimeout, "had not released a batch");
  ASSERT_OK_AND_ASSIGN(const auto last, consumer->next(soon()));
  ring.reset();
  consumer.reset();
  EXPECT_TRUE(is_text_batch(*last, 2)) << "whoever else is gone";
}

TEST(BatchRing, WaitsForTheConsumersThatItNeeds) {
  const auto ring = make_ring({.slots = 2, .slot_bytes = 4096, .consumers = 2});
  ASSERT_OK_AND_ASSIGN(auto one, BatchConsumer::attach(ring->place()));
  EXPECT_FAILS(ring->put(TextBatch(0).batch, deadline_in(0ms)), StatusCode::kTimeout,
               "1 consumers were attached by the deadline, and 2 are needed");
  std::thread late([&] { ASSERT_OK(ring->put(TextBatch(0).batch, soon())); });
  ASSERT_OK_AND_ASSIGN(auto other, BatchConsumer::attach(ring->place()));
  late.join();
  other.reset();
  ASSERT_OK(ring->put(TextBatch(1).batch, soon()));  // one is enough now
  one.reset();
  EXPECT_FAILS(ring->put(TextBatch(2).batch, deadline_in(0ms)), StatusCode::kTimeout,
               "0 consumers were attached by the deadline, and 1 are needed");
  EXPECT_FAILS(ring->wait_used(soon()), StatusCode::kPeerLost,
               "a consumer ended before it had used 3 batches");
  ASSERT_OK(ring->wait_used(soon()));  // the loss is reported once
  EXPECT_EQ(ring->stats().abandoned, 3);
}

TEST(BatchRing, WhoAsksForABatchHasUsedTheOneBefore) {
  const auto ring = make_ring();
  ASSERT_OK_AND_ASSIGN(const auto consumer, BatchConsumer::attach(ring->place()));
  ASSERT_OK(ring->put(TextBatch(0).batch, soon()));
  ASSERT_OK_AND_ASSIGN(const auto batch, consumer->next(soon()));
  EXPECT_FAILS(ring->wait_used(deadline_in(0ms)), StatusCode::kTimeout, "consumer 0 of 1");
  std::thread loop([&] {
    ASSERT_OK_AND_ASSIGN(const auto nothing, consumer->next(soon()));
    EXPECT_EQ(nothing, nullptr);
  });
  ASSERT_OK(ring->wait_used(soon()));  // though `batch` keeps its slot
  ring->finish();
  loop.join();
  EXPECT_TRUE(is_text_batch(*batch, 0));
}

TEST(BatchRing, ALateConsumerIsGivenWhatIsPutFromThenOn) {
  const auto ring = make_ring();
  ASSERT_OK_AND_ASSIGN(const auto one, BatchConsumer::attach(ring->place()));
  ASSERT_OK(ring->put(TextBatch(0).batch, soon()));
  ASSERT_OK_AND_ASSIGN(const auto late, BatchConsumer::attach(ring->place()));
  EXPECT_FAILS(late->next(deadline_in(0ms)), StatusCode::kTimeout, "take batch 1");
  ASSERT_OK(ring->put(TextBatch(1).batch, soon()));
  ASSERT_OK_AND_ASSIGN(const auto batch, late->next(soon()));
  EXPECT_TRUE(is_text_batch(*batch, 1));
}

TEST(BatchRing, WhoGivesUpIsNotTakenForOneThatHasFinished) {
  auto ring = make_ring();
  const std::string place = ring->place();
  ASSERT_OK_AND_ASSIGN(const auto consumer, BatchConsumer::attach(place));
  ASSERT_OK(ring->put(TextBatch(0).batch, soon()));
  ring.reset();
  ASSERT_OK_AND_ASSIGN(const auto batch, consumer->next(soon()));
  EXPECT_TRUE(is_text_batch(*batch, 0)) << "what was put comes first";
  EXPECT_FAILS(consumer->next(soon()), StatusCode::kPeerLost, "take batch 1");
  EXPECT_FAILS(BatchConsumer::attach(place), StatusCode::kUnavailable, "open the memory");
}

TEST(BatchRing, SaysWhatItCannotDo) {
  for (const BatchRingOptions& options :
       std::initializer_list<BatchRingOptions>{{.slots = 0},
                                               {.slot_bytes = 0},
                                               {.consumers_max = 65},
                                               {.consumers = 0},
                                               {.consumers_max = 1, .consumers = 2}}) {
    EXPECT_FAILS(BatchRing::create({}, options), StatusCode::kInvalidArgument, "consumers_max");
  }
  const auto ring = make_ring({.slots = 1, .slot_bytes = 100, .consumers_max = 1});
  ASSERT_OK_AND_ASSIGN(const auto consumer, BatchConsumer::attach(ring->place()));
  EXPECT_FAILS(ring->put(TextBatch(0).batch, soon()), StatusCode::kInvalidArgument,
               "a slot has 100");
  EXPECT_FAILS(BatchConsumer::attach(ring->place()), StatusCode::kExhausted, "consumers_max");
  EXPECT_FAILS(BatchConsumer::attach("nowhere"), StatusCode::kInvalidArgument, "place");
}

TEST(BatchRing, AForkedChildIsNobody) {
  auto ring = make_ring();
  auto consumer = std::move(BatchConsumer::attach(ring->place())).value();
  ASSERT_OK(ring->put(TextBatch(0).batch, soon()));
  auto batch = std::move(consumer->next(soon())).value();
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const bool refused = ring->put(TextBatch(1).batch, soon()).code() == StatusCode::kCancelled &&
                         ring->wait_used(soon()).code() == StatusCode::kCancelled &&
                         consumer->next(soon()).status().code() == StatusCode::kCancelled;
    ring->finish();
    batch.reset();
    consumer.reset();
    ring.reset();
    _exit(refused ? 0 : 1);
  }
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(ring->stats().consumers, 1);
  EXPECT_FAILS(ring->wait_used(deadline_in(0ms)), StatusCode::kTimeout, "had not released a batch");
  EXPECT_FAILS(consumer->next(deadline_in(0ms)), StatusCode::kTimeout, "take batch 1");
}

// The exit code of a child that consumes until the end.
enum Outcome { kAll = 0, kLost, kWrong, kNotAttached };

struct Board {
  std::atomic<uint64_t> given = 0;
};

template <class Stop>
pid_t start_consumer(const std::string& place, Board& board, Stop&& stop) {
  const pid_t child = testing::fork_child();
  if (child != 0) return child;
  const auto consumer = BatchConsumer::attach(place);
  if (!consumer.ok()) _exit(kNotAttached);
  while (true) {
    const auto batch = (*consumer)->next(soon());
    if (!batch.ok()) _exit(batch.status().code() == StatusCode::kPeerLost ? kLost : kWrong);
    if (*batch == nullptr) _exit(kAll);
    if (!is_text_batch(**batch, (*batch)->number)) _exit(kWrong);
    ++board.given;
    stop((*batch)->number);
  }
}

// Returns the number of mappings that this process has of segments without a name.
int mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  int segments = 0;
  for (std::string line; std::getline(maps, line);) {
    segments += line.find("memfd:ffdl") != std::string::npos;
  }
  return segments;
}

TEST(BatchRing, ProcessesUseWhatAnotherPuts) {
  auto& board = testing::make_shared_board<Board>();
  const int mapped_before = mapped_segments();
  auto ring = make_ring({.slots = 3, .slot_bytes = 4096, .consumers = 2});
  EXPECT_GT(mapped_segments(), mapped_before);
  const auto nothing = [](uint64_t) {};
  const pid_t one = start_consumer(ring->place(), board, nothing);
  const pid_t other = start_consumer(ring->place(), board, nothing);
  for (uint64_t number = 0; number < 1000; ++number) {
    ASSERT_OK(ring->put(TextBatch(number).batch, soon()));
  }
  ring->finish();
  EXPECT_EQ(exit_code(one), kAll);
  EXPECT_EQ(exit_code(other), kAll);
  EXPECT_EQ(board.given, 2000);
  ring.reset();
  EXPECT_EQ(mapped_segments(), mapped_before);
}

TEST(BatchRing, ADeadConsumerIsToldOnceAndHoldsUpNobody) {
  auto& board = testing::make_shared_board<Board>();
  const auto ring = make_ring({.slots = 3, .slot_bytes = 4096, .consumers = 2});
  const pid_t one = start_consumer(ring->place(), board, [](uint64_t) {});
  const pid_t victim = start_consumer(ring->place(), board, [](uint64_t number) {
    if (number == 10) raise(SIGKILL);  // while it holds that batch
  });
  for (uint64_t number = 0; number < 100; ++number) {
    ASSERT_OK(ring->put(TextBatch(number).batch, soon()));
  }
  EXPECT_FAILS(ring->wait_used(soon()), StatusCode::kPeerLost,
               "a consumer ended before it had used");
  ASSERT_OK(ring->wait_used(soon()));
  EXPECT_GE(ring->stats().abandoned, 1);
  EXPECT_LE(ring->stats().abandoned, 3) << "what fits into the ring";
  EXPECT_EQ(ring->stats().consumers, 1);
  // Another consumer takes its place.
  ASSERT_OK_AND_ASSIGN(const auto late, BatchConsumer::attach(ring->place()));
  ASSERT_OK(ring->put(TextBatch(100).batch, soon()));
  ASSERT_OK_AND_ASSIGN(const auto batch, late->next(soon()));
  EXPECT_TRUE(is_text_batch(*batch, 100));
  ring->finish();
  EXPECT_EQ(exit_code(one), kAll);
  EXPECT_EQ(exit_code(victim), -SIGKILL);
}

TEST(BatchRing, WhoUsesIsToldOfTheDeathOfWhoReads) {
  auto& board = testing::make_shared_board<Board>();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t reader = testing::fork_child();
  if (reader == 0) {
    const auto ring = make_ring();
    const std::string place = ring->place();
    if (write(pipe_ends[1], place.data(), place.size()) < 0) _exit(1);
    for (uint64_t number = 0;; ++number) {
      if (number == 50) raise(SIGKILL);
      if (!ring->put(TextBatch(number).batch, soon()).ok()) _exit(2);
    }
  }
  char place[100] = {};
  ASSERT_GT(read(pipe_ends[0], place, sizeof place - 1), 0);
  const pid_t consumer = start_consumer(place, board, [](uint64_t) {});
  EXPECT_EQ(exit_code(reader), -SIGKILL);
  EXPECT_EQ(exit_code(consumer), kLost);
  EXPECT_EQ(board.given, 50) << "all that was put";
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace ffdl
