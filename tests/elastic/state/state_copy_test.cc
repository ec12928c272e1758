#include "elastic/state/state_copy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::soon;

ffdl::testing::Ranks two() {
  auto made = make_local_communicators(1, ffdl::testing::members_named(2));
  EXPECT_OK(made);
  return std::move(made).value();
}

constexpr StateTransfer kLabel = {.generation = 7, .step = 41, .from = 0, .to = 1};

TEST(StateCopy, AllBytesArriveAndWhatIsBesideThem) {
  std::vector<float> big(700'001);  // several pieces, the last one short
  std::iota(big.begin(), big.end(), 0.0F);
  std::vector<int8_t> small = {1, 2, 3};
  std::vector<float> big_copy(big.size());
  std::vector<int8_t> small_copy(small.size());
  const std::vector<std::byte> beside = {std::byte{4}, std::byte{5}};
  ffdl::testing::on_each(two(), [&](Communicator& communicator, int rank) {
    HostMemory memory;
    if (rank == 0) {
      const Buffer state[] = {{big.data(), big.size()}, {small.data(), 3, DType::kInt8}, {}};
      EXPECT_OK(send_state(communicator, kLabel, memory, state, beside, soon));
    } else {
      const Buffer state[] = {
          {big_copy.data(), big.size()}, {small_copy.data(), 3, DType::kInt8}, {}};
      const auto received = receive_state(communicator, kLabel, memory, state, soon);
      ASSERT_OK(received);
      EXPECT_EQ(*received, beside);
    }
  });
  EXPECT_EQ(big_copy, big);
  EXPECT_EQ(small_copy, small);
}

// The state changes after it was hashed and before it is sent.
TEST(StateCopy, AnotherHashIsFound) {
  const ffdl::testing::Ranks ranks = two();
  ffdl::testing::on_each(ranks, [&](Communicator& communicator, int rank) {
    HostMemory memory;
    if (rank == 0) {
      uint64_t header[] = {7, 41, 0, 1, 0};
      int8_t bytes[4] = {1, 2, 3, 4};
      uint64_t wrong_hash = 1;
      for (const Buffer& part :
           {Buffer{header, sizeof header, DType::kInt8}, Buffer{bytes, 0, DType::kInt8},
            Buffer{bytes, 4, DType::kInt8}, Buffer{&wrong_hash, sizeof wrong_hash, DType::kInt8}}) {
        EXPECT_OK(communicator.send(part, 1, soon()));
      }
    } else {
      int8_t bytes[4] = {};
      const Buffer state = {bytes, 4, DType::kInt8};
      EXPECT_FAILS(receive_state(communicator, kLabel, memory, {&state, 1}, soon),
                   StatusCode::kInternal, "another hash");
    }
  });
}

TEST(StateCopy, AnotherStepWorldOrMemberIsRefusedBeforeAnythingIsWritten) {
  constexpr StateTransfer kOthers[] = {{8, 41, 0, 1}, {7, 40, 0, 1}, {7, 41, 2, 1}};
  for (const StateTransfer& given : kOthers) {
    ffdl::testing::on_each(two(), [&](Communicator& communicator, int rank) {
      HostMemory memory;
      float value = rank == 0 ? 5 : 6;
      const Buffer state = {&value, 1};
      if (rank == 0) {
        static_cast<void>(send_state(communicator, given, memory, {&state, 1}, {}, soon).ok());
      } else {
        EXPECT_FAILS(receive_state(communicator, kLabel, memory, {&state, 1}, soon),
                     StatusCode::kInternal, "step 41 of generation 7 from rank 0 as rank 1");
        EXPECT_EQ(value, 6);
        communicator.abort(Status(StatusCode::kCancelled, "it was refused"));
      }
    });
  }
}

TEST(StateCopy, WhoGivesMayDie) {
  const ffdl::testing::Ranks ranks = two();
  ffdl::testing::on_each(ranks, [&](Communicator& communicator, int rank) {
    HostMemory memory;
    if (rank == 0) {
      communicator.abort(Status(StatusCode::kCancelled, "the test says so"));
      return;
    }
    float value = 0;
    const Buffer state = {&value, 1};
    EXPECT_FAILS(receive_state(communicator, kLabel, memory, {&state, 1}, soon),
                 StatusCode::kPeerLost, "");
  });
}

TEST(StateCopy, TheHashIsOfTheBytesHoweverTheyAreCut) {
  std::vector<float> values(10, 3);
  const Buffer whole = {values.data(), 10};
  const Buffer cut[] = {{values.data(), 3}, {values.data() + 3, 7}};
  EXPECT_EQ(hash_of({&whole, 1}, {}), hash_of(cut, {}));
  HostMemory memory;
  EXPECT_EQ(hash_of(memory, cut, {}).value(), hash_of(cut, {}));
  EXPECT_EQ(bytes_of(cut), 40U);
  values[9] = 4;
  const uint64_t changed = hash_of(cut, {});
  values[9] = 3;
  EXPECT_NE(hash_of(cut, {}), changed);
}

}  // namespace
}  // namespace ffdl::elastic
