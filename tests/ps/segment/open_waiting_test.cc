#include "ps/segment/open_waiting.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using namespace std::chrono_literals;

TEST(OpenWaiting, WaitsForTheServerToBeCreated) {
  const testing::SegmentName name;
  std::unique_ptr<ParameterServer> server;
  std::thread creator([&] {
    ParameterServerOptions options;
    options.name = name.text();
    options.parameters = 4;
    auto made = ParameterServer::create(options);
    ASSERT_OK(made);
    server = std::move(made).value();
  });
  EXPECT_OK(open_waiting(name.text(), deadline_in(60s)));
  creator.join();
}

TEST(OpenWaiting, SaysWhatIsMissingAtTheDeadline) {
  const Time begin = std::chrono::steady_clock::now();
  EXPECT_FAILS(open_waiting("nobody-made-this", deadline_in(20ms)), StatusCode::kTimeout,
               "start its server");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
}

TEST(OpenWaiting, BadNamesAreNotWaitedFor) {
  EXPECT_FAILS(open_waiting("a/b", kNoDeadline), StatusCode::kInvalidArgument, "'/'");
}

}  // namespace
}  // namespace ffdl::ps
