#include "comm/api/hierarchical_communicator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>

#include "benchmarks/harness/two_hosts.h"
#include "comm/reduce/tree_reduce.h"
#include "support/elements.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::Elements;
using testing::soon;

TEST(SameSubtrees, AreHostsOfAPowerOfTwoEachOneAfterTheOther) {
  const auto same = [](const std::vector<int>& hosts) { return same_subtrees(hosts); };
  EXPECT_TRUE(same({0}));
  EXPECT_TRUE(same({0, 0}));
  EXPECT_TRUE(same({0, 1, 2}));
  EXPECT_TRUE(same({0, 0, 1, 1, 2, 2}));
  EXPECT_TRUE(same({0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_FALSE(same({0, 0, 0, 1, 1, 1}));
  EXPECT_FALSE(same({0, 1, 0, 1}));
  EXPECT_FALSE(same({0, 0, 1}));
  EXPECT_FALSE(same({0, 0, 1, 1, 1, 1}));
  EXPECT_FALSE(same({0, 0, 1, 1, 0, 0}));
}

Elements input_of(int rank, DType type, uint64_t count) {
  Elements elements(type, count);
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  for (uint64_t i = 0; i < count; ++i) {
    const double value = std::ldexp(random() % 1000, -static_cast<int>(random() % 20));
    elements.set(i, type <= DType::kInt64 ? std::floor(value) : value);
  }
  return elements;
}

// Counts results whose bits differ from the tree over all ranks, for every type and reduction.
int count_wrong(Communicator& communicator) {
  const int ranks = communicator.world().size();
  int wrong = 0;
  for (const DType type : {DType::kInt8, DType::kInt32, DType::kFloat16, DType::kBFloat16,
                           DType::kFloat32, DType::kFloat64}) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kProduct}) {
      if (op == ReduceOp::kMean && type <= DType::kInt64) continue;
      constexpr uint64_t kCount = 50'001;
      std::vector<Elements> inputs;
      std::vector<const std::byte*> places;
      for (int rank = 0; rank < ranks; ++rank) inputs.push_back(input_of(rank, type, kCount));
      for (Elements& input : inputs) {
        places.push_back(static_cast<std::byte*>(input.buffer().data));
      }
      Elements expected(type, kCount);
      auto* const wanted = static_cast<std::byte*>(expected.buffer().data);
      tree_reduce(op, type, places, wanted, kCount);
      Elements mine = input_of(communicator.world().rank, type, kCount);
      const Status status = communicator.all_reduce(mine.buffer(), op, soon());
      const bool same =
          status.ok() && std::memcmp(mine.buffer().data, wanted, kCount * element_bytes(type)) == 0;
      if (!same) ADD_FAILURE() << to_string(type) << " " << status.to_string();
      wrong += same ? 0 : 1;
    }
  }
  return wrong;
}

int play_rank(int rank, const std::string& folder, const std::string& address, bool with_address) {
  const auto store = open_store("file://" + folder, system_runtime());
  if (!store.ok()) return 2;
  CommunicatorOptions options;
  if (with_address) options.address = address;
  const auto communicator =
      connect_communicator({1, rank, testing::members_named(4)}, **store, soon(), options);
  if (!with_address) {
    return communicator.status().code() == StatusCode::kInvalidArgument ? 0 : 3;
  }
  if (!communicator.ok()) {
    ADD_FAILURE() << communicator.status().to_string();
    return 4;
  }
  if (dynamic_cast<HierarchicalCommunicator*>(communicator->get()) == nullptr) return 5;
  return count_wrong(**communicator);
}

// Runs two ranks on each of two hosts.
void on_two_hosts(bool with_address) {
  const TempFolder folder;
  const auto codes = bench::run_two_hosts([&](int host, const std::string& address) {
    std::array<pid_t, 2> children{};
    for (int i = 0; i < 2; ++i) {
      children[static_cast<size_t>(i)] = testing::fork_child();
      if (children[static_cast<size_t>(i)] != 0) continue;
      _exit(play_rank(2 * host + i, folder.path(), address, with_address));
    }
    int worst = 0;
    for (const pid_t child : children) {
      int outcome = 0;
      waitpid(child, &outcome, 0);
      worst = std::max(worst, WIFEXITED(outcome) ? WEXITSTATUS(outcome) : 99);
    }
    return worst;
  });
  if (!codes) GTEST_SKIP() << "network namespaces need root, and 'ip' of iproute2";
  EXPECT_EQ(*codes, (std::array<int, 2>{0, 0}));
}

TEST(TwoHosts, AreFoundAndAddUpAsOneWouldWithTheSameBits) { on_two_hosts(true); }

TEST(TwoHosts, NeedAddresses) { on_two_hosts(false); }

}  // namespace
}  // namespace ffdl::comm
