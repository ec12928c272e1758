#include "comm/shm/sum_ring.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/shm/layout.h"

namespace ffdl::comm {
namespace {

uint64_t lines_of(uint64_t bytes) { return (bytes + kLine - 1) / kLine; }

uint64_t ring_at(uint64_t ranks) {
  return (kWordsAt + ranks * sizeof(RingWords) + kPage - 1) / kPage * kPage;
}

}  // namespace

uint64_t bytes_with_header(uint64_t bytes) { return sizeof(SumHeader) + lines_of(bytes) * kLine; }

shm::Doorbell& RingView::bell() const {
  return reinterpret_cast<SharedBell*>(data_ + kBellAt)->bell;
}

RingWords& RingView::words(int rank) const {
  return reinterpret_cast<RingWords*>(data_ + kWordsAt)[rank];
}

template <class Visit>
void RingView::for_each_run(uint64_t position, uint64_t bytes, Visit&& visit) const {
  while (bytes > 0) {
    const uint64_t at = position % config_.ring_bytes;
    const uint64_t here = std::min(bytes, config_.ring_bytes - at);
    visit(data_ + ring_at(config_.ranks) + at, here);
    position += here;
    bytes -= here;
  }
}

void RingView::write(uint64_t position, const std::byte* from, uint64_t bytes) const {
  for_each_run(position, bytes, [&](std::byte* place, uint64_t size) {
    std::memcpy(place, from, size);
    from += size;
  });
}

void RingView::read(uint64_t position, std::byte* to, uint64_t bytes) const {
  for_each_run(position, bytes, [&](const std::byte* place, uint64_t size) {
    std::memcpy(to, place, size);
    to += size;
  });
}

uint64_t ring_segment_bytes(const RingConfig& config) {
  return ring_at(config.ranks) + config.ring_bytes;
}

Result<shm::Segment> create_ring(const RingConfig& config) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        shm::Segment::create({.kind = shm::SegmentKind::kSumRing,
                                              .layout_version = kSumRingLayout,
                                              .bytes = ring_segment_bytes(config)}));
  std::memcpy(segment.data() + kConfigAt, &config, sizeof config);
  return segment;
}

Result<shm::Segment> open_ring(const shm::SegmentPlace& place, const World& world) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        open_segment(place, shm::SegmentKind::kSumRing, kSumRingLayout));
  const bool readable = segment.bytes() >= kWordsAt;
  const RingConfig config = readable ? config_of(segment) : RingConfig{};
  if (readable && config.job != job_hash(world)) {
    return base::make_error(StatusCode::kCorrupt,
                            "open the ring of process {}: it belongs to another job than {}; has "
                            "something written over it, or to the store",
                            place.pid, name_of(world));
  }
  const bool ours = config.generation == world.generation && config.members == world_hash(world) &&
                    config.ranks == world.members.size();
  if (ours && config.ring_bytes > 0 && segment.bytes() == ring_segment_bytes(config)) {
    return segment;
  }
  return base::make_error(StatusCode::kCorrupt,
                          "open the ring of process {}: it does not belong to {} with {} members; "
                          "has something written over it, or to the store",
                          place.pid, name_of(world), world.members.size());
}

RingConfig config_of(const shm::Segment& segment) {
  RingConfig config = {};
  std::memcpy(&config, segment.data() + kConfigAt, sizeof config);
  return config;
}

}  // namespace ffdl::comm
