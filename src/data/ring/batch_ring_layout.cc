#include "data/ring/batch_ring_layout.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/contiguous_samples.h"

namespace ffdl::data {
namespace {

constexpr uint64_t kSlotLine = 64;
constexpr uint64_t kSlotsPage = 4096;
constexpr uint64_t kConfigAt = sizeof(shm::SegmentHeader);
constexpr uint64_t kReaderAt = kConfigAt + sizeof(BatchRingConfig);
constexpr uint64_t kConsumersAt = kReaderAt + sizeof(ReaderWords);
static_assert(kReaderAt % kSlotLine == 0 && kConsumersAt % kSlotLine == 0);
static_assert(std::is_trivially_copyable_v<SampleRange> && sizeof(SampleRange) == 24);

uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

uint64_t slots_at(const BatchRingConfig& config) {
  return round_up(kConsumersAt + config.consumers_max * sizeof(ConsumerWords), kSlotsPage);
}

uint64_t slot_stride(const BatchRingConfig& config) {
  return round_up(config.slot_bytes, kSlotLine);
}

// The offsets of the parts of a slot.
struct SlotParts {
  explicit SlotParts(const BatchHead& head)
      : indices(ranges + head.ranges * sizeof(SampleRange)),
        ends(indices + head.indices * sizeof(uint64_t)),
        bytes(round_up(ends + head.samples * sizeof(uint64_t), kSlotLine)),
        end(bytes + head.bytes) {}

  uint64_t ranges = sizeof(BatchHead);
  uint64_t indices;
  uint64_t ends;
  uint64_t bytes;
  uint64_t end;
};

BatchHead head_of(const DataBatch& batch) {
  BatchHead head = {.number = 0,
                    .ranges = batch.ranges.size(),
                    .indices = batch.indices.size(),
                    .samples = batch.samples.size(),
                    .bytes = 0,
                    .skipped = batch.skipped,
                    .reserved = {}};
  for (const auto& sample : batch.samples) head.bytes += sample.size();
  return head;
}

template <class T>
void write(std::byte* to, std::span<const T> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

// Reports whether the parts of a slot are within it, for any content of its head.
bool fits(const BatchHead& head, uint64_t slot_bytes) {
  const uint64_t counts[] = {head.ranges, head.indices, head.samples, head.bytes};
  const bool small = std::all_of(std::begin(counts), std::end(counts),
                                 [&](uint64_t count) { return count <= slot_bytes; });
  return small && SlotParts(head).end <= slot_bytes;
}

}  // namespace

Result<BatchRingConfig> make_ring_config(const SampleFormat& format, uint32_t slots,
                                         uint64_t slot_bytes, uint32_t consumers_max) {
  BatchRingConfig config = {};
  if (format.dtype.size() >= sizeof config.dtype || format.shape.size() > std::size(config.shape)) {
    return base::invalid_argument(
        "make a ring of batches: samples of dtype '{}' in {} dimensions; use at most {} characters "
        "and {} dimensions",
        format.dtype, format.shape.size(), sizeof config.dtype - 1, std::size(config.shape));
  }
  config.slot_bytes = slot_bytes;
  config.slots = slots;
  config.consumers_max = consumers_max;
  config.sample_bytes = format.bytes;
  config.is_fixed = format.is_fixed ? 1 : 0;
  config.dimensions = static_cast<uint32_t>(format.shape.size());
  std::copy(format.dtype.begin(), format.dtype.end(), config.dtype);
  std::copy(format.shape.begin(), format.shape.end(), config.shape);
  return config;
}

SampleFormat format_of(const BatchRingConfig& config) {
  return {.dtype = std::string(config.dtype, strnlen(config.dtype, sizeof config.dtype)),
          .shape = {config.shape, config.shape + config.dimensions},
          .bytes = config.sample_bytes,
          .is_fixed = config.is_fixed != 0};
}

uint64_t ring_bytes(const BatchRingConfig& config) {
  return slots_at(config) + config.slots * slot_stride(config);
}

uint64_t bytes_in_slot(const DataBatch& batch) { return SlotParts(head_of(batch)).end; }

ReaderWords& BatchRingView::reader() const {
  return *reinterpret_cast<ReaderWords*>(data_ + kReaderAt);
}

ConsumerWords& BatchRingView::consumer(uint32_t i) const {
  return reinterpret_cast<ConsumerWords*>(data_ + kConsumersAt)[i];
}

std::byte* BatchRingView::slot(uint64_t number) const {
  return data_ + slots_at(config_) + number % config_.slots * slot_stride(config_);
}

uint32_t BatchRingView::consumers() const {
  uint32_t count = 0;
  for (uint32_t i = 0; i < config_.consumers_max; ++i) {
    // Pairs with the stores in enter() and leave().
    count += consumer(i).state.load(std::memory_order_seq_cst) == ConsumerState::kHere ? 1 : 0;
  }
  return count;
}

uint32_t BatchRingView::in_the_way(uint64_t number) const {
  for (uint32_t i = 0; i < config_.consumers_max; ++i) {
    const ConsumerWords& words = consumer(i);
    // Pairs with the stores in enter(): a consumer in kComing has not published its first batch
    // yet.
    const ConsumerState state = words.state.load(std::memory_order_seq_cst);
    if (state == ConsumerState::kGone) continue;
    if (state == ConsumerState::kComing) return i;
    // Pairs with the store in release(): the consumer read the slot before that.
    if (number >= words.released.load(std::memory_order_seq_cst) + config_.slots) return i;
  }
  return config_.consumers_max;
}

uint32_t BatchRingView::first_unused() const {
  const uint64_t batches = reader().batches.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < config_.consumers_max; ++i) {
    const ConsumerState state = consumer(i).state.load(std::memory_order_seq_cst);
    if (state == ConsumerState::kGone) continue;
    if (state == ConsumerState::kComing) return i;
    // Pairs with the stores in ask() and release().
    if (consumer(i).used.load(std::memory_order_seq_cst) < batches) return i;
  }
  return config_.consumers_max;
}

void BatchRingView::put(const DataBatch& batch) const {
  ReaderWords& words = reader();
  const uint64_t number = words.batches.load(std::memory_order_relaxed);  // changed here alone
  BatchHead head = head_of(batch);
  head.number = number;
  const SlotParts parts(head);
  FFDL_CHECK(parts.end <= config_.slot_bytes, "a batch is cut to fit its slot");
  std::byte* const to = slot(number);
  std::memcpy(to, &head, sizeof head);
  write(to + parts.ranges, std::span<const SampleRange>(batch.ranges));
  write(to + parts.indices, batch.indices);
  uint64_t end = 0;
  copy_together(batch.samples, to + parts.bytes, [&](size_t i, std::span<const std::byte> copy) {
    end += copy.size();
    std::memcpy(to + parts.ends + i * sizeof end, &end, sizeof end);
  });
  // Pairs with the loads of waiting consumers, which then read the slot.
  words.batches.store(number + 1, std::memory_order_seq_cst);
  words.filled.ring();
}

void BatchRingView::end(RingState state) const {
  reader().state.store(state, std::memory_order_seq_cst);  // pairs with the loads of consumers
  reader().filled.ring();
}

// Begins a consumer. The reader may be writing one batch for which in_the_way() missed this
// consumer. That batch has the number `batches` loaded here, or the one before. So it overwrites
// nothing that this consumer may read. For all later batches in_the_way() sees one of the stores to
// `state`.
uint64_t BatchRingView::enter(uint32_t i) const {
  leave(i);  // an earlier consumer in this place is dead
  ConsumerWords& words = consumer(i);
  words.state.store(ConsumerState::kComing, std::memory_order_seq_cst);  // pairs with in_the_way()
  const uint64_t first = reader().batches.load(std::memory_order_seq_cst);
  words.released.store(first, std::memory_order_seq_cst);
  words.used.store(first, std::memory_order_seq_cst);
  words.state.store(ConsumerState::kHere, std::memory_order_seq_cst);
  reader().released.ring();
  return first;
}

void BatchRingView::ask(uint32_t i, uint64_t number) const {
  consumer(i).used.store(number, std::memory_order_seq_cst);  // pairs with first_unused()
  reader().released.ring();
}

// Releases batches. If several threads do, `used` may return to an earlier number for a moment. The
// reader then only waits longer.
void BatchRingView::release(uint32_t i, uint64_t number) const {
  ConsumerWords& words = consumer(i);
  words.released.store(number, std::memory_order_seq_cst);  // pairs with in_the_way()
  if (words.used.load(std::memory_order_relaxed) < number) {
    words.used.store(number, std::memory_order_seq_cst);  // pairs with first_unused()
  }
  reader().released.ring();
}

void BatchRingView::leave(uint32_t i) const {
  ConsumerWords& words = consumer(i);
  if (words.state.load(std::memory_order_relaxed) == ConsumerState::kHere) {
    // A batch that is put at this moment may be counted or not.
    const uint64_t batches = reader().batches.load(std::memory_order_seq_cst);
    const uint64_t unused = batches - words.used.load(std::memory_order_relaxed);
    reader().abandoned.fetch_add(unused, std::memory_order_seq_cst);
  }
  words.state.store(ConsumerState::kGone, std::memory_order_seq_cst);  // pairs with in_the_way()
  reader().released.ring();
}

Result<DataBatch> BatchRingView::read(uint64_t number,
                                      std::vector<std::span<const std::byte>>& samples) const {
  const std::byte* const from = slot(number);
  BatchHead head = {};
  std::memcpy(&head, from, sizeof head);
  const auto corrupt = [&](const char* what) {
    return base::make_error(StatusCode::kCorrupt,
                            "take batch {} of a ring: {} in its slot of {} bytes; something wrote "
                            "over it: create another ring",
                            number, what, config_.slot_bytes);
  };
  if (head.number != number) return corrupt("there is another batch");
  if (!fits(head, config_.slot_bytes)) return corrupt("its header does not fit");
  const SlotParts parts(head);
  DataBatch batch;
  batch.ranges.resize(static_cast<size_t>(head.ranges));
  if (head.ranges > 0) {
    std::memcpy(batch.ranges.data(), from + parts.ranges, head.ranges * sizeof(SampleRange));
  }
  batch.indices = {reinterpret_cast<const uint64_t*>(from + parts.indices),
                   static_cast<size_t>(head.indices)};
  batch.skipped = head.skipped;
  batch.bytes = {from + parts.bytes, static_cast<size_t>(head.bytes)};
  samples.resize(static_cast<size_t>(head.samples));
  const auto* const ends = reinterpret_cast<const uint64_t*>(from + parts.ends);
  uint64_t begin = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t end = ends[i];
    if (end < begin || end > head.bytes) return corrupt("samples end outside of it");
    samples[i] = batch.bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    begin = end;
  }
  batch.samples = samples;
  return batch;
}

Result<shm::Segment> create_batch_ring(const BatchRingConfig& config) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        shm::Segment::create({.kind = shm::SegmentKind::kBatchRing,
                                              .layout_version = kBatchRingLayout,
                                              .bytes = ring_bytes(config)}));
  std::memcpy(segment.data() + kConfigAt, &config, sizeof config);
  return segment;
}

Result<BatchRingView> view_of(const shm::Segment& segment) {
  BatchRingConfig config = {};
  if (segment.bytes() >= kConsumersAt) {
    std::memcpy(&config, segment.data() + kConfigAt, sizeof config);
  }
  const bool in_bounds = config.slots > 0 && config.slots <= base::kRingSlotsMax &&
                         config.slot_bytes <= base::kRingSlotBytesMax &&
                         config.consumers_max <= base::kRingConsumersMax &&
                         config.dimensions <= std::size(config.shape);
  if (in_bounds && ring_bytes(config) == segment.bytes()) {
    return BatchRingView(segment.data(), config);
  }
  return base::make_error(StatusCode::kCorrupt,
                          "open a ring of batches: {} bytes that are not {} slots of {}; something "
                          "wrote over it: create another ring",
                          segment.bytes(), config.slots, config.slot_bytes);
}

}  // namespace ffdl::data
