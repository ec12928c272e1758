#include <gtest/gtest.h>

#include <optional>

#include "base/byte_records.h"
#include "data/ledger/ledger_state.h"
#include "data/ledger_text.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using testing::members;
using testing::text_of;

LedgerRules rules() {
  LedgerRules rules;
  rules.data = {.samples = 52, .partition_samples = 4, .seed = 1};
  rules.epochs = 3;
  return rules;
}

// Returns a state in the middle of the second epoch, with leases in pieces and some returned.
LedgerState some_state() {
  LedgerState state(rules());
  state.change_members(members("a b c"));
  for (uint64_t step = 0; state.epoch() == 0; ++step) {
    std::vector<Claim> claims;
    for (size_t rank = 0; rank < 3; ++rank) claims.push_back({std::min(state.held(rank), rank), 2});
    state.commit(step, claims);
  }
  state.commit(100, std::vector<Claim>{{1, 2}, {0, 2}, {3, 2}});
  state.change_members(members("c2"));
  return state;
}

TEST(LedgerStateBytes, AStateComesBackAsItWasWritten) {
  LedgerState state = some_state();
  ASSERT_OK_AND_ASSIGN(LedgerState read, LedgerState::decode(state.encode(), rules()));
  EXPECT_EQ(read.encode(), state.encode());
  EXPECT_EQ(text_of(read), text_of(state));
  EXPECT_EQ(read.epoch(), 1U);
  EXPECT_EQ(read.committed(), 4U);
  EXPECT_EQ(read.last(), state.last());
  for (LedgerState* each : {&state, &read}) {
    each->commit(101, std::vector<Claim>{{2, 9}});
    each->change_members(members("x y z"));
  }
  EXPECT_EQ(read.encode(), state.encode()) << "it goes on in the same way";
}

TEST(LedgerStateBytes, WhoIsNewIsPartOfIt) {
  LedgerRules global = rules();
  global.order = SampleOrder::kGlobal;
  global.batch_samples = 8;
  LedgerState state(global);
  state.change_members(members("a"));
  state.change_members(members("a b"), true);
  ASSERT_OK_AND_ASSIGN(LedgerState read, LedgerState::decode(state.encode(), global));
  EXPECT_EQ(read.encode(), state.encode());
  read.change_members(members("a b"), true);
  EXPECT_EQ(text_of(read), text_of(state));
  EXPECT_EQ(read.held(1), 0U);
}

TEST(LedgerStateBytes, TheBatchOfTheStepIsPartOfIt) {
  LedgerRules global = rules();
  global.order = SampleOrder::kGlobal;
  global.batch_samples = 8;
  global.micro_batch_samples = 2;
  LedgerState state(global);
  state.change_members(members("a b"));
  state.set_batch(12);
  state.commit(1, std::vector<Claim>{{4, 1}, {4, 1}});
  ASSERT_OK_AND_ASSIGN(LedgerState read, LedgerState::decode(state.encode(), global));
  EXPECT_EQ(read.batch(), 12U);
  EXPECT_EQ(read.shares(), state.shares());

  // Rewrites the bytes with another batch size.
  const auto bytes = state.encode();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto rewritten = [&](uint64_t batch) {
    constexpr size_t kAt = 8 * (1 + std::tuple_size_v<decltype(global.order_fields())>);
    std::string body(text.substr(0, text.size() - sizeof batch));
    std::memcpy(body.data() + kAt, &batch, sizeof batch);
    const uint64_t sum = XXH3_64bits(body.data(), body.size());
    body.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    return LedgerState::decode(std::as_bytes(std::span(body)), global);
  };
  EXPECT_EQ(rewritten(12)->encode(), bytes);
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{3}, ~uint64_t{0}}) {
    EXPECT_FAILS(rewritten(wrong), StatusCode::kCorrupt, "a ledger cannot have this");
  }
}

TEST(LedgerStateBytes, IsSmall) {
  LedgerRules large = rules();
  large.data = {.samples = 1'000'000'000, .partition_samples = 10'000};
  LedgerState state(large);
  state.change_members(members("a b c d"));
  for (uint64_t step = 0; step < 1000; ++step) {
    state.commit(step, std::vector<Claim>(4, Claim{5000, 2}));
  }
  EXPECT_LT(state.encode().size(), 1024U);
  for (uint64_t life = 1; life < 1000; ++life) {
    state.change_members({{"a", life}, {"b", life}, {"c", 1}, {"d", 1}});
    state.commit(1000 + life, std::vector<Claim>(4, Claim{1, 2}));
  }
  EXPECT_LT(state.encode().size(), 1024U) << "what is returned goes out again";
}

TEST(LedgerStateBytes, MoreEpochsMayFollowAndNothingElseMayChange) {
  const auto bytes = some_state().encode();
  LedgerRules others = rules();
  others.epochs = 9;
  EXPECT_OK(LedgerState::decode(bytes, others));
  const auto refuse = [&](std::string_view message, auto change) {
    LedgerRules changed = rules();
    change(changed);
    EXPECT_FAILS(LedgerState::decode(bytes, changed), StatusCode::kInvalidArgument, message);
  };
  refuse("the job's state, samples is 52, here 51;", [](LedgerRules& r) { r.data.samples = 51; });
  refuse("partition_samples is 4, here 5", [](LedgerRules& r) { r.data.partition_samples = 5; });
  refuse("seed is 1, here 2", [](LedgerRules& r) { r.data.seed = 2; });
  refuse("shuffle is partitions, here samples",
         [](LedgerRules& r) { r.data.shuffle = Shuffle::kSamples; });
  refuse("window_partitions is 1, here 2", [](LedgerRules& r) { r.data.window_partitions = 2; });
  refuse("order is on demand, here global, batch_samples is 0, here 1;", [](LedgerRules& r) {
    r.order = SampleOrder::kGlobal;
    r.batch_samples = 1;
  });
  refuse("micro_batch_samples is 1, here 2", [](LedgerRules& r) { r.micro_batch_samples = 2; });
}

TEST(LedgerStateBytes, EveryChangedOrMissingByteIsFound) {
  const auto bytes = some_state().encode();
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{4};
    EXPECT_FAILS(LedgerState::decode(changed, rules()), StatusCode::kCorrupt, "restore");
    EXPECT_FAILS(LedgerState::decode(std::span(bytes).first(i), rules()), StatusCode::kCorrupt,
                 "restore");
  }
  auto longer = bytes;
  longer.push_back({});
  EXPECT_FAILS(LedgerState::decode(longer, rules()), StatusCode::kCorrupt, "checksum");
}

struct Piece {
  uint64_t partition, begin, end;
};

// Decodes a state with one member and these leases, under a valid checksum.
Status decode(uint64_t epoch, uint64_t begun, const std::vector<Piece>& pieces,
              const std::string& second_member = "") {
  base::ByteWriter out("ffdlldg4");
  for (const uint64_t field : rules().order_fields()) out.number(field);
  for (const uint64_t number : {uint64_t{0}, epoch, begun}) out.number(number);
  out.number(second_member.empty() ? 1 : 2);
  out.text("a");
  out.number(1);
  out.number(pieces.size());
  for (const Piece& piece : pieces) {
    for (const uint64_t number : {piece.partition, piece.begin, piece.end}) out.number(number);
  }
  out.number(0);
  if (!second_member.empty()) {
    out.text(second_member);
    for (const uint64_t number : {1, 0, 0}) out.number(number);
  }
  for (const uint64_t number : {0, 7, 0}) out.number(number);
  const std::string text = std::move(out).finish();
  return LedgerState::decode(std::as_bytes(std::span(text)), rules()).status();
}

TEST(LedgerStateBytes, WhatNoLedgerCanHaveIsRefused) {
  const uint64_t first = rules().data.partition_at(0, 1);
  const uint64_t second = rules().data.partition_at(1, 1);
  EXPECT_OK(decode(1, 1, {{first, 4, 8}}));
  EXPECT_OK(decode(1, 1, {{first, 6, 8}, {first, 4, 5}}));
  EXPECT_OK(decode(1, 1, {}, "b"));
  const Status refused[] = {
      decode(1, 1, {{first, 3, 8}}),                 // a position of the epoch before
      decode(1, 1, {{first, 4, 9}}),                 // a position of the next epoch
      decode(1, 1, {{first, 8, 4}}),                 // reversed
      decode(1, 1, {{first, 4, 4}}),                 // empty
      decode(1, 1, {{second, 4, 8}}),                // not started
      decode(1, 1, {{first, 4, 6}, {first, 5, 8}}),  // overlapping
      decode(1, 1, {{13, 4, 8}}),                    // no such partition
      decode(1, 1, {{first + (uint64_t{1} << 32), 4, 8}}),
      decode(1, 14, {}),                       // too many partitions
      decode((uint64_t{1} << 31) + 1, 0, {}),  // too many epochs
      decode(1, 1, {}, "a"),                   // one member twice
  };
  for (const Status& status : refused) {
    EXPECT_FAILS(status, StatusCode::kCorrupt, "a ledger cannot have this");
  }
}

}  // namespace
}  // namespace ffdl::data
