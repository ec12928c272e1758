#include "comm/shm/layout.h"

#include <cstring>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::comm {
namespace {

constexpr uint64_t kMailboxBytes = base::kMailboxParts * base::kMailboxPartBytes;

uint64_t mailboxes_at(uint64_t ranks) { return kWordsAt + ranks * sizeof(RankWords); }

uint64_t mailbox_parts_at(uint64_t ranks) {
  return (mailboxes_at(ranks) + ranks * sizeof(Mailbox) + kPage - 1) / kPage * kPage;
}

uint64_t slots_at(uint64_t ranks) { return mailbox_parts_at(ranks) + ranks * kMailboxBytes; }

}  // namespace

uint64_t segment_bytes(const ShmConfig& config) {
  return slots_at(config.ranks) + uint64_t{4} * config.ranks * config.slot_bytes;
}

shm::Doorbell& ShmView::bell() const {
  return reinterpret_cast<SharedBell*>(data_ + kBellAt)->bell;
}

RankWords& ShmView::words(int rank) const {
  return reinterpret_cast<RankWords*>(data_ + kWordsAt)[rank];
}

Mailbox& ShmView::mailbox(int rank) const {
  return reinterpret_cast<Mailbox*>(data_ + mailboxes_at(config_.ranks))[rank];
}

std::byte* ShmView::mailbox_part(int rank, uint64_t part) const {
  return data_ + mailbox_parts_at(config_.ranks) + static_cast<uint64_t>(rank) * kMailboxBytes +
         part % base::kMailboxParts * base::kMailboxPartBytes;
}

std::byte* ShmView::slot(int rank, uint64_t which) const {
  const uint64_t number = static_cast<uint64_t>(rank) * 4 + which;
  return data_ + slots_at(config_.ranks) + number * config_.slot_bytes;
}

Result<ShmConfig> read_config(const shm::Segment& segment, const World& world) {
  ShmConfig config = {};
  const bool readable = segment.bytes() >= kWordsAt;
  if (readable) std::memcpy(&config, segment.data() + kConfigAt, sizeof config);
  if (readable && config.job != job_hash(world)) {
    return base::make_error(StatusCode::kCorrupt,
                            "open segment '{}': it belongs to another job than {}; has something "
                            "written over it, or to the store",
                            segment.name(), name_of(world));
  }
  const bool ours = readable && config.generation == world.generation &&
                    config.members == world_hash(world) && config.ranks == world.members.size();
  const bool whole = ours && config.slot_bytes >= base::kSlotBytesMin &&
                     config.slot_bytes <= base::kSlotBytesMax &&
                     segment.bytes() == segment_bytes(config);
  if (whole) return config;
  return base::make_error(StatusCode::kCorrupt,
                          "open segment '{}': it does not belong to {} with {} members; has "
                          "something written over it, or to the store",
                          segment.name(), name_of(world), world.members.size());
}

}  // namespace ffdl::comm
