#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "cuda/device_arrays.h"
#include "ffdl/ps/parameter_server.h"
#include "support/learners.h"
#include "support/rule_arrays.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Tests servers that fold in a real GPU's memory; tests/ps/server/server_device_test.cc has the
// rest.
namespace ffdl {
namespace {

using testing::soon;

constexpr uint64_t kServerFloats = 1'200'017;  // two slices of a shard

// Returns the cut of a server after a few gradients, pushed one after the other.
Result<ParameterServerCut> cut_after_pushes(UpdateRuleKind kind, DType type,
                                            std::optional<int> device) {
  FFDL_ASSIGN_OR_RETURN(const auto server, ParameterServer::create({.parameters = kServerFloats,
                                                                    .rule = testing::rule_of(kind),
                                                                    .learners_max = 1,
                                                                    .gradient_type = type,
                                                                    .device = device}));
  FFDL_RETURN_IF_ERROR(server->start());
  EXPECT_EQ(server->stats().device.has_value(), device.has_value());
  FFDL_ASSIGN_OR_RETURN(const auto learner, Learner::attach(*server, soon()));
  std::vector<float> gradient(kServerFloats);
  uint32_t random = 1;
  for (uint64_t i = 0; i < 3; ++i) {
    for (float& element : gradient) {
      random = random * 1'664'525 + 1'013'904'223;
      element = static_cast<float>(static_cast<int32_t>(random)) * 0x1p-30F;
    }
    FFDL_RETURN_IF_ERROR(learner->push(gradient, SampleRange{.begin = i, .end = i + 1}).status());
    while (server->version() <= i) std::this_thread::yield();  // so that gradients are not added up
  }
  EXPECT_EQ(server->stats().device.has_value(), device.has_value());  // the device has not failed
  return server->cut(soon());
}

TEST(ServerOnGpu, GivesTheBitsOfTheProcessor) {
  FFDL_SKIP_WITHOUT_GPU();
  for (const UpdateRuleKind kind : testing::kAllRules) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(to_string(kind));
      ASSERT_OK_AND_ASSIGN(const auto expected, cut_after_pushes(kind, type, std::nullopt));
      ASSERT_OK_AND_ASSIGN(const auto cut, cut_after_pushes(kind, type, -1));
      EXPECT_TRUE(cut.weights == expected.weights);
      EXPECT_TRUE(cut.state == expected.state);
    }
  }
}

TEST(ServerOnGpu, FoldsWhatManyLearnersPush) {
  FFDL_SKIP_WITHOUT_GPU();
  ParameterServerOptions options{.parameters = kServerFloats, .threads = 2, .device = -1};
  options.rule.learning_rate = 1;
  const auto server = testing::create_server(options);
  ASSERT_OK(server->start());
  constexpr uint64_t kEach = 20;
  {
    std::vector<std::jthread> learners;
    for (uint32_t l = 0; l < 4; ++l) {
      learners.emplace_back([&server, l] {
        const auto learner = testing::attach(*server);
        const std::vector<float> ones(kServerFloats, 1.0F);
        for (uint64_t i = 0; i < kEach; ++i) {
          ASSERT_OK(learner->push(ones, {.partition = l, .begin = i, .end = i + 1}));
        }
        ASSERT_OK(learner->detach(soon()));
      });
    }
  }
  EXPECT_TRUE(server->stats().device.has_value());
  ASSERT_OK(server->stop());
  for (const float weight : server->weights()) ASSERT_EQ(weight, -4.0F * kEach);
}

}  // namespace
}  // namespace ffdl
