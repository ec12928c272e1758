#include "ffdl/comm/micro_batch_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "support/abort_while_running.h"
#include "support/device_shm.h"
#include "support/elements.h"
#include "support/fake_nccl.h"
#include "support/leaf_cuts.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::Elements;
using testing::on_each;
using testing::Ranks;
using testing::soon;

Ranks make_local(int ranks) {
  return make_local_communicators(1, testing::members_named(ranks)).value();
}

Ranks make_shm(int count) {
  auto store = open_store("mem://", system_runtime());
  Ranks ranks(static_cast<size_t>(count));
  testing::on_threads(count, [&](int rank) {
    auto made = connect_communicator({1, rank, testing::members_named(count)}, **store, soon());
    ASSERT_OK(made);
    ranks[static_cast<size_t>(rank)] = std::move(made).value();
  });
  return ranks;
}

// Returns numbers of very different magnitude, so that every order of addition has bits of its own.
double element_of(uint64_t micro_batch, uint64_t i) {
  const uint64_t mixed = (micro_batch * 1'000'003 + i + 1) * 0x9E3779B97F4A7C15;
  return std::ldexp(static_cast<double>(mixed >> 40), -static_cast<int>(mixed % 30));
}

Elements gradient_of(DType type, uint64_t count, uint64_t micro_batch) {
  Elements gradient(type, count, 1);
  for (uint64_t i = 0; i < count; ++i) {
    gradient.set(i, type <= DType::kInt64 ? std::fmod(element_of(micro_batch, i), 100)
                                          : std::fmod(element_of(micro_batch, i), 1000));
  }
  return gradient;
}

// Evaluates the tree plainly: neighbours, level by level. T is the type of the computation.
template <class T, class Of>
T by_levels(std::vector<T> nodes, Of of) {
  while (nodes.size() > 1) {
    std::vector<T> above;
    for (size_t i = 0; i < nodes.size(); i += 2) {
      above.push_back(i + 1 < nodes.size() ? of(nodes[i], nodes[i + 1]) : nodes[i]);
    }
    nodes = std::move(above);
  }
  return nodes.front();
}

template <class T>
T combined(ReduceOp op, T left, T right) {
  if (op == ReduceOp::kMin) return std::min(left, right);
  if (op == ReduceOp::kMax) return std::max(left, right);
  return op == ReduceOp::kProduct ? left * right : left + right;
}

// Returns the elements that every rank must receive.
template <class T>
Elements expected_as(ReduceOp op, DType type, uint64_t count, uint64_t micro_batches, T weight) {
  std::vector<Elements> leaves;
  for (uint64_t i = 0; i < micro_batches; ++i) leaves.push_back(gradient_of(type, count, i));
  Elements out(type, count);
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<T> values;
    for (Elements& leaf : leaves) values.push_back(static_cast<T>(leaf.get(i)));
    const T root = by_levels(values, [op](T a, T b) { return combined(op, a, b); });
    out.set(i, static_cast<double>(op == ReduceOp::kMean ? root / weight : root));
  }
  return out;
}

Elements expected(ReduceOp op, DType type, uint64_t count, uint64_t micro_batches) {
  if (type <= DType::kInt64) return expected_as<int64_t>(op, type, count, micro_batches, 1);
  if (type == DType::kFloat64) {
    return expected_as(op, type, count, micro_batches, static_cast<double>(micro_batches));
  }
  return expected_as(op, type, count, micro_batches, static_cast<float>(micro_batches));
}

bool same_bits(const Buffer& one, const Buffer& other) {
  const auto* const bytes = static_cast<const std::byte*>(one.data);  // null if there are none
  return std::equal(bytes, bytes + one.count * element_bytes(one.dtype),
                    static_cast<const std::byte*>(other.data));
}

// Runs one step of a rank.
Status run_step(MicroBatchSum& sum, Elements& out) {
  const Buffer all = out.buffer();
  for (uint64_t i = sum.begin(); i < sum.end(); ++i) {
    Elements gradient = gradient_of(all.dtype, all.count, i);
    FFDL_RETURN_IF_ERROR(sum.add(gradient.buffer()));
  }
  const uint64_t cut = all.count / 3;
  const Buffer list[] = {out.part(0, cut), out.part(cut, all.count - cut)};
  return sum.finish(list, soon());
}

void expect_steps(Communicator& communicator, const MicroBatchOptions& options, Elements& wanted) {
  ASSERT_OK_AND_ASSIGN(const auto sum, MicroBatchSum::create(communicator, options, soon()));
  for (int step = 0; step < 2; ++step) {
    Elements out(options.dtype, options.count, 1);
    ASSERT_OK(run_step(*sum, out));
    ASSERT_TRUE(same_bits(out.buffer(), wanted.buffer()))
        << to_string(options.dtype) << " by " << static_cast<int>(options.op) << " on "
        << options.shares.size();
  }
}

struct BackEnd {
  std::string name;
  Ranks (*make)(int ranks);
};

class MicroBatches : public ::testing::TestWithParam<BackEnd> {
 protected:
  static Ranks make(int ranks) { return GetParam().make(ranks); }
};

TEST_P(MicroBatches, GiveTheSameBitsOnAnyNumberOfRanksInAnyShares) {
  constexpr uint64_t kCount = 301;
  std::mt19937 random(11);
  std::vector<Elements> wanted;
  for (uint64_t all = 1; all <= 16; ++all) {
    wanted.push_back(expected(ReduceOp::kSum, DType::kFloat32, kCount, all));
  }
  for (int count = 1; count <= 8; ++count) {
    const Ranks ranks = make(count);
    for (uint64_t all = 1; all <= 16; ++all) {
      MicroBatchOptions options = {.shares = even_shares(all, count),
                                   .count = kCount,
                                   .dtype = DType::kFloat32,
                                   .op = ReduceOp::kSum};
      for (int cut = 0; cut < 3; ++cut) {
        on_each(ranks, [&](Communicator& communicator, int) {
          expect_steps(communicator, options, wanted[all - 1]);
        });
        options.shares = testing::random_cut(all, static_cast<uint64_t>(count), random);
      }
    }
  }
}

TEST_P(MicroBatches, OfEveryTypeOperationAndSize) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProduct};
  for (const int count : {1, 3, 4}) {
    const Ranks ranks = make(count);
    for (const DType type : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                             DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      for (const ReduceOp op : kOps) {
        if (op == ReduceOp::kMean && type <= DType::kInt64) continue;
        // 4 micro-batches are shared unevenly by 3 ranks, and are the tree of the ranks at 4.
        const uint64_t all = op == ReduceOp::kProduct ? 3 : 4;
        for (const uint64_t size : {0U, 1U, 5U, 2051U}) {
          Elements wanted = expected(op, type, size, all);
          on_each(ranks, [&](Communicator& communicator, int) {
            expect_steps(communicator, {even_shares(all, count), size, type, op}, wanted);
          });
        }
      }
    }
  }
}

// Takes more than one window.
TEST_P(MicroBatches, OfLargeGradients) {
  constexpr uint64_t kCount = 270'001;
  Elements wanted = expected(ReduceOp::kMean, DType::kFloat64, kCount, 3);
  const Ranks ranks = make(2);
  on_each(ranks, [&](Communicator& communicator, int) {
    expect_steps(communicator, {{1, 2}, kCount, DType::kFloat64, ReduceOp::kMean}, wanted);
  });
}

TEST_P(MicroBatches, OneForEachRankGiveWhatAllReduceGives) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    for (const DType type : {DType::kFloat32, DType::kFloat16}) {
      const Ranks ranks = make(5);
      on_each(ranks, [&](Communicator& communicator, int rank) {
        Elements wanted = gradient_of(type, 999, static_cast<uint64_t>(rank));
        ASSERT_OK(communicator.all_reduce(wanted.buffer(), op, soon()));
        expect_steps(communicator, {even_shares(5, 5), 999, type, op}, wanted);
      });
    }
  }
}

TEST_P(MicroBatches, AMeanIsDividedByTheWeightThatIsGiven) {
  for (const int count : {2, 3}) {
    const Ranks ranks = make(count);
    Elements wanted = expected_as(ReduceOp::kMean, DType::kFloat32, 100, 4, 37.0F);
    on_each(ranks, [&](Communicator& communicator, int) {
      const MicroBatchOptions options = {.shares = even_shares(4, count), .count = 100};
      ASSERT_OK_AND_ASSIGN(const auto sum, MicroBatchSum::create(communicator, options, soon()));
      for (uint64_t i = sum->begin(); i < sum->end(); ++i) {
        ASSERT_OK(sum->add(gradient_of(DType::kFloat32, 100, i).buffer()));
      }
      Elements out(DType::kFloat32, 100);
      EXPECT_FAILS(sum->finish(out.buffer(), soon(), 0), StatusCode::kInvalidArgument,
                   "the weight is 0");
      EXPECT_FAILS(sum->finish(out.buffer(), soon(), NAN), StatusCode::kInvalidArgument,
                   "the weight is nan");
      ASSERT_OK(sum->finish(out.buffer(), soon(), 37));
      EXPECT_TRUE(same_bits(out.buffer(), wanted.buffer()));
    });
  }
}

TEST_P(MicroBatches, RanksThatWereGivenOtherOptionsAreToldSo) {
  const MicroBatchOptions ours = {.shares = {3, 3, 2}, .count = 10};
  MicroBatchOptions others[] = {ours, ours, ours, ours};
  others[0].shares = {3, 2, 3};
  others[1].count = 11;
  others[2].dtype = DType::kFloat16;
  others[3].op = ReduceOp::kSum;
  for (const MicroBatchOptions& theirs : others) {
    const Ranks ranks = make(3);
    on_each(ranks, [&](Communicator& communicator, int rank) {
      const auto made = MicroBatchSum::create(communicator, rank == 1 ? theirs : ours, soon());
      EXPECT_FAILS(made, StatusCode::kInvalidArgument, "mean of 10 float32 for shares of 3, 3, 2");
      EXPECT_FAILS(made, StatusCode::kInvalidArgument, "but at rank");
      EXPECT_OK(communicator.barrier(soon()));
    });
  }
}

TEST_P(MicroBatches, AStepThatFailsInTheCommunicatorIsGone) {
  Ranks ranks = make(2);
  std::unique_ptr<MicroBatchSum> kept;
  on_each(ranks, [&](Communicator& communicator, int rank) {
    auto made = MicroBatchSum::create(communicator, {.shares = {1, 2}, .count = 4}, soon());
    ASSERT_OK(made);
    if (rank == 0) kept = std::move(made).value();
  });
  ranks[1].reset();
  Elements gradient(DType::kFloat32, 4);
  for (int step = 0; step < 2; ++step) {
    ASSERT_OK(kept->add(gradient.buffer()));
    EXPECT_FAILS(kept->finish(gradient.buffer(), soon()), StatusCode::kPeerLost, "rank 1 'm1'");
  }
}

// The output can be unmapped after abort() has returned. A thread that accesses it afterwards is
// killed.
TEST_P(MicroBatches, AfterAbortNobodyTouchesTheOutputOrSaysOk) {
  constexpr uint64_t kCount = 50'000;
  const std::vector<float> gradient(kCount);
  const Buffer given = {const_cast<float*>(gradient.data()), kCount, DType::kFloat32};
  for (int turn = 0; turn < 10; ++turn) {
    const Ranks ranks = make(2);
    // 3 micro-batches in shares of 2 and 1 are the tree of the ranks; in shares of 1 and 2 they are
    // not.
    const MicroBatchOptions options = {
        .shares = turn % 2 == 0 ? std::vector<uint64_t>{2, 1} : std::vector<uint64_t>{1, 2},
        .count = kCount};
    std::vector<std::unique_ptr<MicroBatchSum>> sums(2);
    on_each(ranks, [&](Communicator& communicator, int rank) {
      ASSERT_OK_AND_ASSIGN(sums[static_cast<size_t>(rank)],
                           MicroBatchSum::create(communicator, options, soon()));
    });
    testing::abort_while_running(
        ranks, kCount * sizeof(float), 3 + turn, [&](Communicator&, int rank, void* memory) {
          MicroBatchSum& sum = *sums[static_cast<size_t>(rank)];
          for (uint64_t i = sum.begin(); i < sum.end(); ++i) EXPECT_OK(sum.add(given));
          return sum.finish(Buffer{memory, kCount, DType::kFloat32}, soon());
        });
  }
}

INSTANTIATE_TEST_SUITE_P(BackEnds, MicroBatches,
                         ::testing::Values(BackEnd{"local", make_local}, BackEnd{"shm", make_shm}),
                         [](const auto& test) { return test.param.name; });

// If the numbers did not show the order, the tests above could not fail.
TEST(MicroBatchNumbers, ShowInWhichOrderTheyAreAdded) {
  for (uint64_t all = 4; all <= 16; ++all) {
    Elements wanted = expected(ReduceOp::kSum, DType::kFloat32, 1001, all);
    std::vector<Elements> leaves;
    for (uint64_t i = 0; i < all; ++i) leaves.push_back(gradient_of(DType::kFloat32, 1001, i));
    int other_order = 0;
    int other_place = 0;
    for (uint64_t i = 0; i < 1001; ++i) {
      std::vector<float> values;
      for (Elements& leaf : leaves) values.push_back(static_cast<float>(leaf.get(i)));
      const auto as_got = static_cast<float>(wanted.get(i));
      other_order += std::accumulate(values.begin() + 1, values.end(), values[0]) != as_got;
      std::swap(values[1], values[2]);
      other_place += by_levels(values, std::plus<float>()) != as_got;
    }
    EXPECT_GT(other_order, 10) << all;
    EXPECT_GT(other_place, 10) << all;
  }
}

TEST(MicroBatchOptions, ThatMakeNoSenseAreRefused) {
  const Ranks ranks = make_local(2);
  const auto fails = [&](const MicroBatchOptions& options, std::string_view why) {
    EXPECT_FAILS(MicroBatchSum::create(*ranks[0], options, soon()), StatusCode::kInvalidArgument,
                 why);
  };
  fails({.shares = {1, 2, 3}, .count = 1}, "3 shares for 2 ranks");
  fails({.shares = {}, .count = 1}, "0 shares for 2 ranks");
  fails({.shares = {0, 0}, .count = 1}, "no micro-batches in a step");
  fails({.shares = {4096, 1}, .count = 1}, "too many micro-batches in a step");
  fails({.shares = {UINT64_MAX, 2}, .count = 1}, "too many micro-batches in a step");
  fails({.shares = {1, 1}, .count = UINT64_MAX}, "more than");
  fails({.shares = {1, 1}, .count = 1, .dtype = static_cast<DType>(99)}, "dtype 99");
  fails({.shares = {1, 1}, .count = 1, .dtype = DType::kInt8}, "integers have no mean");
  fails({.shares = {1, 1}, .count = 1, .op = static_cast<ReduceOp>(9)}, "reduction 9");
}

TEST(MicroBatchSum, AWrongCallChangesNothing) {
  const Ranks ranks = make_local(1);
  ASSERT_OK_AND_ASSIGN(
      const auto sum,
      MicroBatchSum::create(
          *ranks[0], {.shares = {2}, .count = 3, .dtype = DType::kFloat32, .op = ReduceOp::kSum},
          soon()));
  float values[4] = {1, 2, 3, 4};
  const Buffer right = {values, 3, DType::kFloat32};
  EXPECT_FAILS(sum->add({values, 4}), StatusCode::kInvalidArgument, "4 elements");
  EXPECT_FAILS(sum->add({values, 3, DType::kFloat16}), StatusCode::kInvalidArgument,
               "float16 beside");
  EXPECT_FAILS(sum->add({nullptr, 3}), StatusCode::kInvalidArgument, "null address");
  ASSERT_OK(sum->add(right));
  EXPECT_FAILS(sum->finish(right, soon()), StatusCode::kInvalidArgument, "1 of the 2");
  ASSERT_OK(sum->add(right));
  EXPECT_FAILS(sum->add(right), StatusCode::kInvalidArgument, "all 2 micro-batches of rank 0");
  EXPECT_FAILS(sum->finish({values, 2}, soon()), StatusCode::kInvalidArgument, "2 elements");
  EXPECT_FAILS(sum->finish(right, soon(), 3), StatusCode::kInvalidArgument, "not a mean");
  ASSERT_OK(sum->finish(right, soon()));
  EXPECT_EQ(values[2], 6);
}

TEST(MicroBatchSum, ARankBeginsItsStepAgain) {
  on_each(make_local(2), [](Communicator& communicator, int rank) {
    const MicroBatchOptions options = {.shares = {2, 1}, .count = 1, .op = ReduceOp::kSum};
    ASSERT_OK_AND_ASSIGN(const auto sum, MicroBatchSum::create(communicator, options, soon()));
    float value = 100;
    ASSERT_OK(sum->add({&value, 1}));
    sum->clear();
    value = 3;
    for (uint64_t i = sum->begin(); i < sum->end(); ++i) ASSERT_OK(sum->add({&value, 1}));
    ASSERT_OK(sum->finish({&value, 1}, soon()));
    EXPECT_EQ(value, 9) << "at rank " << rank;
  });
}

TEST(EvenShares, GiveTheFirstRanksOneMore) {
  EXPECT_EQ(even_shares(8, 3), (std::vector<uint64_t>{3, 3, 2}));
  EXPECT_EQ(even_shares(2, 4), (std::vector<uint64_t>{1, 1, 0, 0}));
  EXPECT_TRUE(even_shares(8, 0).empty());
}

// Sums that a GPU has computed are moved between ranks. The bits equal those of the host's memory,
// for any number of ranks and any shares.
TEST(MicroBatchesOnAGpu, GiveTheBitsOfTheHost) {
  constexpr uint64_t kCount = 301;
  constexpr uint64_t kMicroBatches = 6;
  testing::fresh_fake_nccl();
  uint64_t generation = 0;
  const auto expect_bits = [&](const Ranks& ranks, const std::vector<uint64_t>& shares) {
    for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
        Elements wanted = expected(op, type, kCount, kMicroBatches);
        on_each(ranks, [&](Communicator& communicator, int) {
          testing::HostDevice device;
          expect_steps(communicator,
                       {.shares = shares,
                        .count = kCount,
                        .dtype = type,
                        .op = op,
                        .device = 0,
                        .devices = &device},
                       wanted);
        });
      }
    }
  };
  for (const std::vector<uint64_t>& shares :
       {std::vector<uint64_t>{6}, {3, 3}, {0, 6}, {1, 4, 1}, {2, 2, 2}, {2, 2, 1, 1}}) {
    const std::vector<Member> members = testing::members_named(static_cast<int>(shares.size()));
    expect_bits(testing::nccl_ranks(++generation, members), shares);
    expect_bits(testing::device_shm_ranks(++generation, members), shares);
  }
}

TEST(MicroBatchesOnAGpu, WhatCannotBeIsSaid) {
  testing::fresh_fake_nccl();
  testing::HostDevice device;
  MicroBatchOptions options = {.shares = {1, 1}, .count = 4, .device = 0, .devices = &device};
  on_each(make_local(2), [&](Communicator& communicator, int) {
    EXPECT_FAILS(MicroBatchSum::create(communicator, options, soon()), StatusCode::kInvalidArgument,
                 "use a communicator of kNccl or kDeviceShm");
  });
  const Ranks ranks = testing::nccl_ranks(1, testing::members_named(2));
  on_each(ranks, [&](Communicator& communicator, int rank) {
    MicroBatchOptions greatest = options;
    greatest.op = ReduceOp::kMax;
    EXPECT_FAILS(MicroBatchSum::create(communicator, greatest, soon()), StatusCode::kUnimplemented,
                 "adds up only floating point numbers");
    MicroBatchOptions one_here = options;
    if (rank == 1) one_here.device.reset();
    EXPECT_FAILS(MicroBatchSum::create(communicator, one_here, soon()),
                 StatusCode::kInvalidArgument, "in a GPU's memory for shares of 1, 1");
  });
}

}  // namespace
}  // namespace ffdl
