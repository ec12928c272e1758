#include "conformance/communicator_conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "comm/api/hierarchical_communicator.h"
#include "comm/reduce/tree_reduce.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/comm/micro_batch_sum.h"
#include "support/abort_while_running.h"
#include "support/device_shm.h"
#include "support/elements.h"
#include "support/fake_nccl.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::Elements;
using testing::on_each;
using testing::Ranks;

Ranks connect(uint64_t generation, const std::vector<Member>& members,
              const CommunicatorOptions& options) {
  auto store = open_store("mem://", system_runtime());
  Ranks ranks(members.size());
  testing::on_threads(static_cast<int>(members.size()), [&](int rank) {
    auto made = connect_communicator({generation, rank, members}, **store, soon(), options);
    ASSERT_OK(made);
    ranks[static_cast<size_t>(rank)] = std::move(made).value();
  });
  return ranks;
}

// Creates hosts of two ranks, or of four if there are eight ranks. Each host has shared memory of
// its own. An odd number of ranks has a host for each.
Ranks make_hierarchical(uint64_t generation, const std::vector<Member>& members) {
  auto store = open_store("mem://", system_runtime());
  const size_t each = members.size() % 2 != 0 ? 1 : members.size() == 8 ? 4 : 2;
  Ranks ranks(members.size());
  testing::on_threads(static_cast<int>(members.size()), [&](int rank) {
    const auto first = members.begin() + rank / static_cast<int>(each) * static_cast<int>(each);
    const World inside = {
        generation, rank % static_cast<int>(each), {first, first + static_cast<int>(each)}};
    auto host = connect_communicator(inside, **store, soon(), {.backend = Backend::kShm});
    ASSERT_OK(host);
    const World world = {generation, rank, members};
    auto met = comm::connect_tcp_links(world, **store, soon(), "127.0.0.1");
    ASSERT_OK(met);
    auto made = std::make_unique<comm::HierarchicalCommunicator>(world, std::move(met->links),
                                                                 std::move(host).value());
    ASSERT_OK(made->open(soon()));
    ranks[static_cast<size_t>(rank)] = std::move(made);
  });
  return ranks;
}

Ranks make_shm_in_one_mapping(uint64_t generation, const std::vector<Member>& members) {
  Ranks ranks;
  for (auto& rank : testing::shm_in_one_mapping(generation, members)) {
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

constexpr DType kTypes[] = {DType::kInt8,    DType::kInt16,    DType::kInt32,   DType::kInt64,
                            DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

// Returns 1 or 2, so that all results are exact in all types but int8.
double given(int rank, uint64_t i) {
  return 1 + static_cast<double>((static_cast<uint64_t>(rank) * 7 + i * 3) % 5 % 2);
}

double reduced(ReduceOp op, int ranks, uint64_t i) {
  double result = given(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = given(rank, i);
    if (op == ReduceOp::kSum) result += value;
    if (op == ReduceOp::kProduct) result *= value;
    if (op == ReduceOp::kMin) result = std::min(result, value);
    if (op == ReduceOp::kMax) result = std::max(result, value);
  }
  return result;
}

Elements filled(DType type, uint64_t count, int rank, uint64_t offset = 0) {
  Elements elements(type, count, offset);
  for (uint64_t i = 0; i < count; ++i) elements.set(i, given(rank, i));
  return elements;
}

// All or some ranks register memory, and some sizes are cut unevenly. The bits equal those from
// private memory.
TEST_P(CommunicatorConformance, AllReduceInPlaceOfSharedMemory) {
  for (const int count : {1, 2, 3, 5}) {
    const Ranks ranks = make(count);
    for (const uint64_t elements : {1U, 1001U, 20'000U, 100'003U}) {
      for (const int sharing : {count, count - 1}) {
        on_each(ranks, [&](Communicator& communicator, int rank) {
          ASSERT_OK_AND_ASSIGN(const auto memory, SharedMemory::allocate(elements * sizeof(float)));
          if (rank < sharing) ASSERT_OK(communicator.register_memory(memory));
          auto* const values = reinterpret_cast<float*>(memory->data());
          std::vector<float> wanted(elements);
          for (uint64_t i = 0; i < elements; ++i) {
            values[i] = 1.0F / static_cast<float>(i % 1000 + 3 + static_cast<uint64_t>(rank));
            wanted[i] = values[i];
          }
          for (int again = 0; again < 3; ++again) {
            ASSERT_OK(communicator.all_reduce({values, elements}, ReduceOp::kMean, soon()));
            ASSERT_OK(communicator.all_reduce({wanted.data(), elements}, ReduceOp::kMean, soon()));
            ASSERT_EQ(std::memcmp(values, wanted.data(), elements * sizeof(float)), 0) << elements;
          }
        });
      }
    }
  }
}

TEST_P(CommunicatorConformance, AllReduceOfEveryTypeAndOperation) {
  for (const int count : {1, 2, 3, 4, 7}) {
    const Ranks ranks = make(count);
    on_each(ranks, [&](Communicator& communicator, int rank) {
      for (const DType type : kTypes) {
        if (adds_in_its_own_way() && type == DType::kInt16) continue;
        for (const ReduceOp op : kOps) {
          Elements elements = filled(type, 1001, rank);
          ASSERT_OK(communicator.all_reduce(elements.buffer(), op, soon()));
          for (uint64_t i = 0; i < elements.size(); ++i) {
            ASSERT_EQ(elements.get(i), reduced(op, count, i)) << to_string(type) << " at " << i;
          }
        }
      }
    });
  }
}

TEST_P(CommunicatorConformance, IntegersWrapAround) {
  const Ranks ranks = make(2);
  on_each(ranks, [&](Communicator& communicator, int) {
    int8_t value = 100;
    ASSERT_OK(communicator.all_reduce({&value, 1, DType::kInt8}, ReduceOp::kSum, soon()));
    EXPECT_EQ(value, static_cast<int8_t>(200));
    int64_t large = INT64_MAX;
    ASSERT_OK(communicator.all_reduce({&large, 1, DType::kInt64}, ReduceOp::kSum, soon()));
    EXPECT_EQ(large, -2);
  });
}

TEST_P(CommunicatorConformance, TheMeanIsTheSumDividedOnce) {
  if (adds_in_its_own_way()) GTEST_SKIP() << "its mean is its own";
  const Ranks ranks = make(3);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    float value = static_cast<float>(rank);
    ASSERT_OK(communicator.all_reduce({&value, 1, DType::kFloat32}, ReduceOp::kMean, soon()));
    EXPECT_EQ(value, 1.0F);
    value = rank == 0 ? 1.0F : 0.0F;
    ASSERT_OK(communicator.all_reduce({&value, 1, DType::kFloat32}, ReduceOp::kMean, soon()));
    EXPECT_EQ(value, 1.0F / 3);
  });
}

TEST_P(CommunicatorConformance, NaNStaysInMinimumAndMaximum) {
  if (adds_in_its_own_way()) GTEST_SKIP() << "its minimum and maximum are its own";
  const Ranks ranks = make(3);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      for (int bad = 0; bad < 3; ++bad) {
        std::vector<float> values(37, rank == bad ? NAN : 1.0F);
        ASSERT_OK(communicator.all_reduce({values.data(), 37, DType::kFloat32}, op, soon()));
        for (const float value : values) ASSERT_TRUE(std::isnan(value)) << bad;
      }
    }
  });
}

TEST_P(CommunicatorConformance, OddSizesUnalignedAndOutOfPlace) {
  const Ranks ranks = make(3);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    for (const uint64_t count : {0U, 1U, 7U, 63U, 8191U, 8193U, 70001U}) {
      for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
        Elements in = filled(type, count, rank, 1);
        Elements out(type, count, 3);
        ASSERT_OK(communicator.all_reduce(in.buffer(), out.buffer(), ReduceOp::kSum, soon()));
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(out.get(i), reduced(ReduceOp::kSum, 3, i)) << count << " at " << i;
          ASSERT_EQ(in.get(i), given(rank, i)) << "the input was changed";
        }
      }
    }
  });
}

Elements tagged_elements(uint64_t count, int rank) {
  Elements elements(DType::kFloat64, count);
  for (uint64_t i = 0; i < count; ++i) elements.set(i, tagged(rank, i));
  return elements;
}

TEST_P(CommunicatorConformance, MovesBlocksToTheirPlaces) {
  constexpr int kRanks = 3;
  const Ranks ranks = make(kRanks);
  for (const uint64_t block : {5U, 30011U}) {
    on_each(ranks, [&](Communicator& communicator, int rank) {
      const auto mine = static_cast<uint64_t>(rank);
      Elements one = tagged_elements(block, rank);
      Elements three = tagged_elements(kRanks * block, rank);
      Elements gathered(DType::kFloat64, kRanks * block);
      ASSERT_OK(communicator.all_gather(one.buffer(), gathered.buffer(), soon()));
      Elements exchanged(DType::kFloat64, kRanks * block);
      ASSERT_OK(communicator.all_to_all(three.buffer(), exchanged.buffer(), soon()));
      for (uint64_t i = 0; i < kRanks * block; ++i) {
        const auto source = static_cast<int>(i / block);
        ASSERT_EQ(gathered.get(i), tagged(source, i % block));
        ASSERT_EQ(exchanged.get(i), tagged(source, mine * block + i % block));
      }
      for (int root = 0; root < kRanks; ++root) {
        Elements sent = tagged_elements(block, rank);
        ASSERT_OK(communicator.broadcast(sent.buffer(), root, soon()));
        Elements part(DType::kFloat64, block);
        ASSERT_OK(communicator.scatter(three.buffer(), part.buffer(), root, soon()));
        Elements all(DType::kFloat64, kRanks * block);
        ASSERT_OK(communicator.gather(one.buffer(), all.buffer(), root, soon()));
        for (uint64_t i = 0; i < block; ++i) {
          ASSERT_EQ(sent.get(i), tagged(root, i));
          ASSERT_EQ(part.get(i), tagged(root, mine * block + i));
        }
        for (uint64_t i = 0; i < kRanks * block; ++i) {
          const auto source = static_cast<int>(i / block);
          ASSERT_EQ(all.get(i), rank == root ? tagged(source, i % block) : 0);
        }
      }
    });
  }
}

TEST_P(CommunicatorConformance, ReducesToOneAndToEachItsBlock) {
  constexpr int kRanks = 4;
  const Ranks ranks = make(kRanks);
  for (const uint64_t block : {3U, 20011U}) {
    on_each(ranks, [&](Communicator& communicator, int rank) {
      const auto mine = static_cast<uint64_t>(rank);
      Elements in = filled(DType::kInt32, kRanks * block, rank);
      Elements out(DType::kInt32, block);
      ASSERT_OK(communicator.reduce_scatter(in.buffer(), out.buffer(), ReduceOp::kSum, soon()));
      for (uint64_t i = 0; i < block; ++i) {
        ASSERT_EQ(out.get(i), reduced(ReduceOp::kSum, kRanks, mine * block + i));
      }
      Elements whole(DType::kInt32, kRanks * block);
      ASSERT_OK(communicator.reduce(in.buffer(), whole.buffer(), ReduceOp::kSum, 2, soon()));
      for (uint64_t i = 0; i < kRanks * block; ++i) {
        ASSERT_EQ(whole.get(i), rank == 2 ? reduced(ReduceOp::kSum, kRanks, i) : 0);
      }
    });
  }
}

// Each rank splits its list at other positions.
TEST_P(CommunicatorConformance, AListIsItsConcatenation) {
  constexpr uint64_t kCount = 50021;
  const Ranks ranks = make(3);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    Elements elements = filled(DType::kFloat32, kCount, rank, 1);
    std::vector<Buffer> list;
    std::minstd_rand random(static_cast<unsigned>(rank + 1));
    for (uint64_t at = 0; at < kCount;) {
      const uint64_t size = std::min<uint64_t>(random() % 900, kCount - at);  // may be 0
      list.push_back(elements.part(at, size));
      at += size;
    }
    ASSERT_OK(communicator.all_reduce(list, ReduceOp::kSum, soon()));
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(elements.get(i), reduced(ReduceOp::kSum, 3, i)) << i;
    }
  });
}

// The bits follow the documented tree, for any back end and any order of arrival.
TEST_P(CommunicatorConformance, SumsHaveTheSameBitsEverywhere) {
  if (adds_in_its_own_way()) GTEST_SKIP() << "its order is its own";
  for (const int count : {2, 3, 5, 8}) {
    for (const uint64_t size : {1000U, 100'003U}) {
      std::vector<std::vector<float>> inputs;
      std::vector<const std::byte*> places;
      std::mt19937 random(17);
      for (int rank = 0; rank < count; ++rank) {
        inputs.emplace_back(size);
        for (float& value : inputs.back()) {
          value = std::ldexp(static_cast<float>(random()), -static_cast<int>(random() % 60));
        }
      }
      for (const auto& input : inputs) {
        places.push_back(reinterpret_cast<const std::byte*>(input.data()));
      }
      std::vector<float> expected(size);
      comm::tree_reduce(ReduceOp::kSum, DType::kFloat32, places,
                        reinterpret_cast<std::byte*>(expected.data()), size);
      const Ranks ranks = make(count);
      on_each(ranks, [&](Communicator& communicator, int rank) {
        std::vector<float> values = inputs[static_cast<size_t>(rank)];
        ASSERT_OK(communicator.all_reduce({values.data(), size, DType::kFloat32}, ReduceOp::kSum,
                                          soon()));
        ASSERT_EQ(std::memcmp(values.data(), expected.data(), size * sizeof(float)), 0);
      });
    }
  }
}

// The bits equal those of one micro-batch on each rank, however the micro-batches are distributed.
TEST_P(CommunicatorConformance, MicroBatchesHaveTheSameBitsOnAnyNumberOfRanks) {
  if (adds_in_its_own_way()) GTEST_SKIP() << "its order is its own";
  constexpr uint64_t kCount = 30'011;
  const std::vector<uint64_t> cuts[] = {{1, 1, 1, 1, 1, 1}, {6}, {4, 2}, {3, 3}, {1, 0, 2, 3}};
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const auto gradient_of = [type](uint64_t micro_batch) {
      Elements gradient(type, kCount, 1);
      for (uint64_t i = 0; i < kCount; ++i) {
        gradient.set(i, 1.0 / static_cast<double>(3 + (i + 1) * (7 * micro_batch + 5) % 1000));
      }
      return gradient;
    };
    Elements wanted(type, kCount, 1);
    on_each(make(6), [&](Communicator& communicator, int rank) {
      Elements own = gradient_of(static_cast<uint64_t>(rank));
      ASSERT_OK(communicator.all_reduce(own.buffer(), ReduceOp::kMean, soon()));
      if (rank == 0) wanted = own;
    });
    for (const std::vector<uint64_t>& shares : cuts) {
      on_each(make(static_cast<int>(shares.size())), [&](Communicator& communicator, int) {
        ASSERT_OK_AND_ASSIGN(const auto sum,
                             MicroBatchSum::create(communicator, {shares, kCount, type}, soon()));
        for (uint64_t i = sum->begin(); i < sum->end(); ++i) {
          ASSERT_OK(sum->add(gradient_of(i).buffer()));
        }
        Elements out(type, kCount, 1);
        ASSERT_OK(sum->finish(out.buffer(), soon()));
        ASSERT_EQ(
            std::memcmp(out.buffer().data, wanted.buffer().data, kCount * element_bytes(type)), 0);
      });
    }
  }
}

TEST_P(CommunicatorConformance, ManyOperationsOfManySizesInARow) {
  const Ranks ranks = make(4);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    std::minstd_rand random(5);  // the same seed at all ranks
    for (int turn = 0; turn < 300; ++turn) {
      const uint64_t count = random() % (turn % 10 == 0 ? 60'000 : 900);
      const DType type = adds_in_its_own_way() ? DType::kInt32 : DType::kInt16;
      Elements elements = filled(type, count, rank);
      if (turn % 7 == 0) ASSERT_OK(communicator.barrier(soon()));
      ASSERT_OK(communicator.all_reduce(elements.buffer(), ReduceOp::kSum, soon()));
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(elements.get(i), reduced(ReduceOp::kSum, 4, i)) << turn << " at " << i;
      }
    }
  });
}

TEST_P(CommunicatorConformance, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 4;
  const Ranks ranks = make(kRanks);
  std::atomic<int> come = 0;
  on_each(ranks, [&](Communicator& communicator, int) {
    for (int turn = 1; turn <= 100; ++turn) {
      ++come;
      ASSERT_OK(communicator.barrier(soon()));
      ASSERT_GE(come.load(), turn * kRanks);
      ASSERT_OK(communicator.barrier(soon()));
    }
  });
}

TEST_P(CommunicatorConformance, ADeadlineIsKeptAndEndsTheCommunicator) {
  const Ranks ranks = make(2);
  EXPECT_FAILS(ranks[0]->barrier(deadline_in(20ms)), StatusCode::kTimeout,
               "rank 1 'm1' had not arrived");
  EXPECT_FAILS(ranks[0]->barrier(soon()), StatusCode::kTimeout, "rank 1");
  EXPECT_FAILS(first_failure(*ranks[1]), StatusCode::kPeerLost, "rank 0 'm0'");
}

TEST_P(CommunicatorConformance, WhoLeavesIsLost) {
  Ranks ranks = make(3);
  std::thread leaver([&] { ranks[1].reset(); });
  EXPECT_FAILS(ranks[0]->barrier(soon()), StatusCode::kPeerLost, "rank 1 'm1'");
  EXPECT_EQ(ranks[2]->barrier(soon()).code(), StatusCode::kPeerLost);
  leaver.join();
}

TEST_P(CommunicatorConformance, RanksThatDisagreeAreToldWhatBothDo) {
  const Ranks ranks = make(2);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    std::vector<float> values(10);
    const uint64_t count = rank == 0 ? 10 : 9;
    const Status status =
        communicator.all_reduce({values.data(), count, DType::kFloat32}, ReduceOp::kSum, soon());
    EXPECT_FAILS(status, StatusCode::kInvalidArgument, "all_reduce sum of 10 float32");
    EXPECT_FAILS(status, StatusCode::kInvalidArgument, "all_reduce sum of 9 float32");
  });
}

TEST_P(CommunicatorConformance, DisagreementInKindTypeOperationAndRootIsFound) {
  float value = 1;
  int32_t number = 1;
  const Buffer floats = {&value, 1, DType::kFloat32};
  const Buffer integers = {&number, 1, DType::kInt32};
  const std::function<Status(Communicator&)> others[] = {
      [&](Communicator& c) { return c.barrier(soon()); },
      [&](Communicator& c) { return c.all_reduce(integers, ReduceOp::kSum, soon()); },
      [&](Communicator& c) { return c.all_reduce(floats, ReduceOp::kMax, soon()); },
      [&](Communicator& c) { return c.broadcast(floats, 1, soon()); },
  };
  for (const auto& other : others) {
    const Ranks ranks = make(2);
    on_each(ranks, [&](Communicator& communicator, int rank) {
      float mine = 1;
      const Status status =
          rank == 1 ? other(communicator)
                    : communicator.all_reduce({&mine, 1, DType::kFloat32}, ReduceOp::kSum, soon());
      EXPECT_FAILS(status, StatusCode::kInvalidArgument, "must run the same operation");
    });
  }
}

TEST_P(CommunicatorConformance, AWrongCallChangesNothing) {
  const Ranks ranks = make(2);
  on_each(ranks, [&](Communicator& communicator, int) {
    std::vector<float> values(3);
    const Buffer three = {values.data(), 3, DType::kFloat32};
    const Buffer two = {values.data(), 2, DType::kFloat32};
    const Buffer null = {nullptr, 3, DType::kFloat32};
    EXPECT_FAILS(communicator.all_reduce(three, two, ReduceOp::kSum, soon()),
                 StatusCode::kInvalidArgument, "all_reduce: 2 elements to receive");
    EXPECT_FAILS(communicator.reduce_scatter(three, two, ReduceOp::kSum, soon()),
                 StatusCode::kInvalidArgument, "reduce_scatter");
    EXPECT_FAILS(communicator.broadcast(three, 2, soon()), StatusCode::kInvalidArgument, "root 2");
    EXPECT_FAILS(communicator.all_reduce(null, ReduceOp::kSum, soon()),
                 StatusCode::kInvalidArgument, "null address");
    ASSERT_OK(communicator.barrier(soon()));
  });
}

TEST_P(CommunicatorConformance, AbortWakesWhoWaits) {
  const Ranks ranks = make(2);
  std::thread other([&] { ranks[0]->abort(Status(StatusCode::kWorldChanged, "a new world")); });
  EXPECT_FAILS(ranks[0]->barrier(kNoDeadline), StatusCode::kWorldChanged, "a new world");
  other.join();
  EXPECT_FAILS(ranks[0]->barrier(soon()), StatusCode::kWorldChanged, "a new world");
  EXPECT_FAILS(first_failure(*ranks[1]), StatusCode::kPeerLost, "rank 0");
}

// The buffer can be unmapped after abort() has returned. A thread that accesses it afterwards is
// killed.
TEST_P(CommunicatorConformance, AfterAbortNobodyTouchesTheBuffersOrSaysOk) {
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  for (int turn = 0; turn < 20; ++turn) {
    testing::abort_while_running(make(2), kBytes, 3 + turn % 4,
                                 [](Communicator& communicator, int, void* memory) {
                                   const Buffer buffer = {memory, kBytes / 4, DType::kFloat32};
                                   return communicator.all_reduce(buffer, ReduceOp::kMax, soon());
                                 });
  }
}

TEST_P(CommunicatorConformance, TheNextGenerationIsMadeWhileThisOneWorks) {
  const Ranks old_ranks = make(3);
  const Ranks next_ranks = GetParam().make(2, testing::members_named(2));
  on_each(old_ranks, [&](Communicator& communicator, int rank) {
    ASSERT_OK(communicator.barrier(soon()));
    if (rank == 2) return;
    Communicator& next = *next_ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(next.world().generation, 2U);
    int32_t value = rank + 1;
    ASSERT_OK(next.all_reduce({&value, 1, DType::kInt32}, ReduceOp::kSum, soon()));
    EXPECT_EQ(value, 3);
  });
  on_each(old_ranks, [&](Communicator& c, int) { EXPECT_OK(c.barrier(soon())); });
}

INSTANTIATE_TEST_SUITE_P(
    BackEnds, CommunicatorConformance,
    ::testing::Values(BackEnd{"local",
                              [](uint64_t generation, const std::vector<Member>& members) {
                                auto ranks = make_local_communicators(generation, members);
                                EXPECT_OK(ranks);
                                return std::move(ranks).value();
                              }},
                      BackEnd{"shm",
                              [](uint64_t generation, const std::vector<Member>& members) {
                                return connect(generation, members, {});
                              }},
                      // Uses the smallest slots, so that every operation takes many steps.
                      BackEnd{"shm_small_slots",
                              [](uint64_t generation, const std::vector<Member>& members) {
                                return connect(generation, members,
                                               {.slot_bytes = uint64_t{16} << 10});
                              }},
                      BackEnd{"shm_one_mapping", make_shm_in_one_mapping},
                      BackEnd{"tcp",
                              [](uint64_t generation, const std::vector<Member>& members) {
                                return connect(generation, members, {.backend = Backend::kTcp});
                              }},
                      BackEnd{"tcp_tls",
                              [](uint64_t generation, const std::vector<Member>& members) {
                                return connect(generation, members,
                                               {.backend = Backend::kTcp, .tls = true});
                              }},
                      BackEnd{"gloo",
                              [](uint64_t generation, const std::vector<Member>& members) {
                                return connect(generation, members, {.backend = Backend::kGloo});
                              },
                              true},
                      BackEnd{"hierarchical", make_hierarchical},
                      // Runs the part of NCCL's back end that needs no GPU.
                      BackEnd{"nccl", testing::nccl_ranks, false, true},
                      BackEnd{"nccl_grown", testing::grown_nccl_ranks, false, true},
                      BackEnd{"nccl_shrunk", testing::shrunk_nccl_ranks, false, true},
                      // Runs on a device that is made of threads.
                      BackEnd{"device_shm", testing::device_shm_ranks}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ffdl
