#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/learner/learner_impl.h"
#include "ps/segment/layout.h"
#include "ps/segment/shared_copy.h"
#include "support/host_device.h"
#include "support/learners.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Declares learners of a device in the host's memory. Its streams are threads.
namespace ffdl::testing {

inline constexpr uint64_t kFloats = 5'000;

inline ParameterServerOptions device_server_options(const std::string& name) {
  ParameterServerOptions options;
  options.name = name;
  options.parameters = kFloats;
  options.rule.learning_rate = 1;
  return options;
}

inline Result<std::unique_ptr<Learner>> try_attach_device(
    const std::string& name, std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>()) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, ps::open_segment(name));
  return Learner::Impl::attach(std::make_shared<const shm::Segment>(std::move(segment)), soon(),
                               {.device = -1}, std::move(device));
}

inline std::unique_ptr<Learner> attach_device(
    const std::string& name, std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>()) {
  auto attached = try_attach_device(name, std::move(device));
  EXPECT_OK(attached);
  return std::move(attached).value();
}

inline bool all_equal(const std::vector<float>& values) {
  return std::ranges::all_of(values, [&](float value) { return value == values[0]; });
}

// A stream of the program that trains.
class TrainStream {
 public:
  TrainStream() : stream_(HostDevice().make_stream().value()) {}
  void* get() { return stream_.get(); }
  void run(std::function<void()> kernel) {
    static_cast<ThreadStream*>(stream_.get())->enqueue(std::move(kernel));
  }

 private:
  base::SideStream stream_;
};

// A device that stops its first copy in the middle, until `rest`.
class StoppingDevice : public HostDevice {
 public:
  struct Copies {
    std::latch half{1};
    std::latch rest{1};
    std::atomic<int> count = 0;
  };
  explicit StoppingDevice(std::shared_ptr<Copies> copies) : copies_(std::move(copies)) {}

  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    if (copies_->count++ > 0) return HostDevice::copy(to, from, bytes, stream);
    static_cast<ThreadStream*>(stream)->enqueue([=, copies = copies_] {
      const uint64_t half = bytes / 2 / sizeof(float) * sizeof(float);
      std::memmove(to, from, half);
      copies->half.count_down();
      copies->rest.wait();
      std::memmove(static_cast<std::byte*>(to) + half, static_cast<const std::byte*>(from) + half,
                   bytes - half);
    });
    return {};
  }

 private:
  const std::shared_ptr<Copies> copies_;
};

class DeviceLearners : public ::testing::Test {
 protected:
  void start(const ParameterServerOptions& options) {
    server_ = create_server(options);
    ASSERT_OK(server_->start());
  }
  void start() { start(device_server_options(name_)); }
  void TearDown() override { EXPECT_EQ(HostPins::of_this_process().bytes(), 0U); }

  // Reads the weights as a learner does. A learner pushes through a mapping of its own, so
  // ThreadSanitizer would not see that the push follows a plain read.
  std::vector<float> weights() const {
    std::vector<float> read(kFloats);
    ps::copy_from_shared(read.data(), server_->weights().data(), kFloats);
    return read;
  }
  void expect_weights(float value) const {
    for (const float weight : weights()) ASSERT_EQ(weight, value);
  }
  uint64_t published() const {
    uint64_t sum = 0;
    for (const LearnerProgress& learner : server_->stats().learners) sum += learner.published;
    return sum;
  }

  const SegmentName name_;
  std::unique_ptr<ParameterServer> server_;
  TrainStream stream_;
  std::vector<float> ones_ = std::vector<float>(kFloats, 1.0F);
};

// A device that refuses one copy, or reports that one failed.
class FailingDevice final : public HostDevice {
 public:
  enum class At { kCopy, kWait };
  explicit FailingDevice(At at) : at_(at) {}
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    if (at_ == At::kCopy && failures_++ == 0) return failure();
    return HostDevice::copy(to, from, bytes, stream);
  }
  Status wait(base::DeviceStream stream) override {
    FFDL_RETURN_IF_ERROR(HostDevice::wait(stream));
    return at_ == At::kWait && failures_++ == 0 ? failure() : Status();
  }

 private:
  static Status failure() { return Status(StatusCode::kInternal, "the copy engine is broken"); }
  const At at_;
  std::atomic<int> failures_ = 0;
};

}  // namespace ffdl::testing
