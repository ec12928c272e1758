#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/ps/learner.h"
#include "support/device_learners.h"

// Tests learners of a device that pull and push rows of tables.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::attach_device;
using testing::FailingDevice;
using testing::HostDevice;
using testing::kFloats;
using testing::soon;
using testing::StoppingDevice;

// Rows of 7 floats from parameter 100 on, and the last 5 parameters.
constexpr uint64_t kTable = 100;
constexpr uint64_t kRowSize = 7;
constexpr uint64_t kTail = kFloats - 5;

ParameterServerOptions sparse_server_options(const std::string& name) {
  ParameterServerOptions options = testing::device_server_options(name);
  options.rows_max = 64;
  return options;
}

// The memory of a mini-batch that touches some rows.
struct DeviceTable {
  explicit DeviceTable(std::vector<uint64_t> rows_in)
      : rows(std::move(rows_in)), values(rows.size() * kRowSize), tail(kFloats - kTail) {}

  Status start_pull(Learner& learner, void* stream) {
    const RowWeights tables[] = {
        {.table = kTable, .row_size = kRowSize, .rows = rows, .values = values},
        {.table = kTail, .row_size = tail.size(), .rows = kFirst, .values = tail}};
    return learner.start_pull_rows(tables, stream);
  }
  Status start_push(Learner& learner, void* stream, SampleRange samples) const {
    const RowGradient table{.table = kTable, .row_size = kRowSize, .rows = rows, .values = values};
    const PartGradient part{.begin = kTail, .values = tail};
    return learner.start_push(Gradient::sparse({&table, 1}, {&part, 1}), samples, stream);
  }
  void fill(float row_value, float tail_value) {
    std::ranges::fill(values, row_value);
    std::ranges::fill(tail, tail_value);
  }

  static constexpr uint64_t kFirst[] = {0};
  std::vector<uint64_t> rows;
  std::vector<float> values;
  std::vector<float> tail;
};

constexpr SampleRange kOne{.partition = 0, .begin = 0, .end = 1};

class DeviceRowsTest : public testing::DeviceLearners {};

TEST_F(DeviceRowsTest, RowsAreGatheredAndPushedAlone) {
  start(sparse_server_options(name_));
  auto learner = attach_device(name_);
  std::vector<float> numbers(kFloats);
  for (uint64_t i = 0; i < kFloats; ++i) numbers[i] = -static_cast<float>(i);
  ASSERT_OK(learner->start_push(numbers, {.partition = 1, .begin = 0, .end = 1}, stream_.get()));
  ASSERT_OK(learner->finish_push(soon()));
  ASSERT_OK(learner->flush(soon()));
  std::vector<float> expected = weights();
  EXPECT_EQ(expected[17], 17);

  for (uint64_t i = 0; i < 3; ++i) {  // each with more rows than the one before
    DeviceTable batch({30, 2, 600 + i});
    for (uint64_t row = 40; row < 40 + 10 * i; ++row) batch.rows.push_back(row);
    batch.values.resize(batch.rows.size() * kRowSize);
    ASSERT_OK(batch.start_pull(*learner, stream_.get()));
    ASSERT_OK(learner->finish_pull(soon()));
    for (size_t row = 0; row < batch.rows.size(); ++row) {
      for (uint64_t f = 0; f < kRowSize; ++f) {
        ASSERT_EQ(batch.values[row * kRowSize + f],
                  expected[kTable + batch.rows[row] * kRowSize + f]);
      }
    }
    EXPECT_EQ(batch.tail, std::vector(expected.begin() + kTail, expected.end()));

    stream_.run([&] { batch.fill(1, 10); });
    ASSERT_OK(batch.start_push(*learner, stream_.get(), {.begin = i, .end = i + 1}));
    for (const uint64_t row : batch.rows) {
      for (uint64_t f = 0; f < kRowSize; ++f) expected[kTable + row * kRowSize + f] -= 1;
    }
    for (uint64_t f = kTail; f < kFloats; ++f) expected[f] -= 10;
    std::ranges::fill(batch.rows, 0);  // these rows were read already
    ASSERT_OK(learner->finish_push(soon()));
    ASSERT_OK(learner->flush(soon()));
    ASSERT_EQ(weights(), expected);
  }
  EXPECT_EQ(server_->stats().partitions[0].samples, 3U);
  EXPECT_EQ(server_->stats().staleness[0], 4U);  // each computed from the previous pull
}

TEST_F(DeviceRowsTest, RowsComeAfterWhatTheirStreamWasGiven) {
  start(sparse_server_options(name_));
  const auto copies = std::make_shared<StoppingDevice::Copies>();
  auto learner = attach_device(name_, std::make_unique<StoppingDevice>(copies));
  DeviceTable batch({1, 2});
  std::latch computed(1);
  stream_.run([&] {
    computed.wait();
    batch.fill(1, 1);
  });
  ASSERT_OK(batch.start_push(*learner, stream_.get(), {.begin = 0, .end = 1}));
  EXPECT_FAILS(learner->finish_push(deadline_in(20ms)), StatusCode::kTimeout, "not done");
  computed.count_down();
  copies->half.wait();  // half of the first table is copied
  EXPECT_FAILS(learner->finish_push(deadline_in(20ms)), StatusCode::kTimeout, "not done");
  EXPECT_EQ(published(), 0U);
  copies->rest.count_down();
  ASSERT_OK(learner->finish_push(soon()));
  ASSERT_OK(learner->flush(soon()));
  EXPECT_EQ(weights()[kTable + 3 * kRowSize - 1], -1);
  EXPECT_EQ(weights()[kFloats - 1], -1);

  std::latch used(1);
  std::vector<float> seen;
  stream_.run([&] {
    used.wait();
    seen = batch.values;
  });
  ASSERT_OK(batch.start_pull(*learner, stream_.get()));
  EXPECT_FAILS(learner->finish_pull(deadline_in(20ms)), StatusCode::kTimeout, "not done");
  used.count_down();
  ASSERT_OK(learner->finish_pull(soon()));
  EXPECT_EQ(seen, std::vector<float>(2 * kRowSize, 1.0F));
  EXPECT_EQ(batch.values, std::vector<float>(2 * kRowSize, -1.0F));
}

TEST_F(DeviceRowsTest, FailuresWithRowsPushNothing) {
  start(sparse_server_options(name_));
  for (const auto at : {FailingDevice::At::kCopy, FailingDevice::At::kWait}) {
    DeviceTable batch({1, 2});
    auto learner = attach_device(name_, std::make_unique<FailingDevice>(at));
    ASSERT_OK(batch.start_push(*learner, stream_.get(), {.begin = 0, .end = 1}));
    EXPECT_FAILS(learner->finish_push(soon()), StatusCode::kInternal, "copy engine is broken");
    learner = attach_device(name_, std::make_unique<FailingDevice>(at));
    ASSERT_OK(batch.start_pull(*learner, stream_.get()));
    EXPECT_FAILS(learner->finish_pull(soon()), StatusCode::kInternal, "copy engine is broken");
    ASSERT_OK(batch.start_pull(*learner, stream_.get()));
    ASSERT_OK(learner->finish_pull(soon()));
  }
  EXPECT_EQ(published(), 0U);
}

TEST_F(DeviceRowsTest, MistakesWithRowsAreNamed) {
  start(sparse_server_options(name_));
  auto device = std::make_unique<HostDevice>();
  DeviceTable of_host({1});
  device->keep_on_host(of_host.tail.data());
  auto learner = attach_device(name_, std::move(device));
  EXPECT_FAILS(of_host.start_push(*learner, stream_.get(), kOne), StatusCode::kInvalidArgument,
               "start_push: the memory is the host's");
  EXPECT_FAILS(of_host.start_pull(*learner, stream_.get()), StatusCode::kInvalidArgument,
               "start_pull: the memory is the host's");
  EXPECT_FAILS(DeviceTable(std::vector<uint64_t>(715, 1)).start_push(*learner, stream_.get(), kOne),
               StatusCode::kInvalidArgument, "5010 floats for 5000 parameters");
  EXPECT_FAILS(DeviceTable({700}).start_pull(*learner, stream_.get()), StatusCode::kInvalidArgument,
               "row 700 of 700");
  EXPECT_FAILS(DeviceTable({1}).start_push(*learner, stream_.get(), {}),
               StatusCode::kInvalidArgument, "no sample is in them");
  EXPECT_FAILS(learner->finish_push(kNoDeadline), StatusCode::kInvalidArgument, "none was started");
  DeviceTable wrong({700});
  ASSERT_OK(wrong.start_push(*learner, stream_.get(), kOne));
  EXPECT_FAILS(learner->finish_push(soon()), StatusCode::kInvalidArgument, "row 700");
  DeviceTable batch({1});
  ASSERT_OK(batch.start_pull(*learner, stream_.get()));
  EXPECT_FAILS(batch.start_pull(*learner, stream_.get()), StatusCode::kInvalidArgument,
               "finish_pull() first");
  ASSERT_OK(learner->finish_pull(soon()));
}

}  // namespace
}  // namespace ffdl
