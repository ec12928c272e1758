#include "shm/segment_place.h"

#include <gtest/gtest.h>

#include <optional>

#include "support/status_matchers.h"

namespace ffdl::shm {
namespace {

constexpr auto kKind = SegmentKind::kCommunicator;

TEST(SegmentPlace, ComesBackFromItsText) {
  const SegmentPlace place = {.segment = 0xfedcba9876543210, .pid = 12, .fd = 3};
  EXPECT_EQ(segment_place_of(to_text(place)), place);
  EXPECT_EQ(segment_place_of("elsewhere"), SegmentPlace());
}

TEST(SegmentPlace, LeadsToThatSegmentOnlyAndAsLongAsItIsOpen) {
  ASSERT_OK_AND_ASSIGN(std::optional<Segment> segment,
                       Segment::create({.kind = kKind, .layout_version = 1, .bytes = 4096}));
  const SegmentPlace place = place_of(*segment);
  ASSERT_OK_AND_ASSIGN(const Segment opened, open_segment(place, kKind, 1));
  opened.data()[100] = std::byte{7};
  EXPECT_EQ(segment->data()[100], std::byte{7});
  SegmentPlace other = place;
  ++other.segment;
  EXPECT_FAILS(open_segment(other, kKind, 1), StatusCode::kConflict, "replaced");
  EXPECT_FAILS(open_segment(place, kKind, 2), StatusCode::kInvalidArgument, "layout version");
  segment.reset();
  EXPECT_FAILS(open_segment(place, kKind, 1), StatusCode::kUnavailable, "process");
  EXPECT_FAILS(open_segment({}, kKind, 1), StatusCode::kUnavailable, "process 0");
}

}  // namespace
}  // namespace ffdl::shm
