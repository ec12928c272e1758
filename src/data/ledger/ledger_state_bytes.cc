#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/byte_records.h"
#include "base/errors.h"
#include "base/limits.h"
#include "data/ledger/ledger_state.h"

namespace ffdl::data {
namespace {

constexpr std::string_view kMagic = "ffdlldg4";

// The options that LedgerRules::order_fields() returns, in its order.
constexpr std::string_view kFieldNames[] = {
    "samples", "partition_samples", "seed",          "shuffle",
    "order",   "window_partitions", "batch_samples", "micro_batch_samples"};

Status is_corrupt(std::string_view what) {
  return base::make_error(StatusCode::kCorrupt,
                          "restore a ledger: {}; restore what a ledger with the same "
                          "options has saved",
                          what);
}

using OrderFields = std::array<uint64_t, std::size(kFieldNames)>;

std::string text_of(size_t field, uint64_t value) {
  constexpr std::string_view kShuffles[] = {"none", "partitions", "samples"};
  constexpr std::string_view kOrders[] = {"on demand", "global"};
  if (kFieldNames[field] == "shuffle" && value < std::size(kShuffles)) {
    return std::string(kShuffles[value]);
  }
  if (kFieldNames[field] == "order" && value < std::size(kOrders)) {
    return std::string(kOrders[value]);
  }
  return std::to_string(value);
}

// Names the options that differ, with both values.
Status expect_same(const OrderFields& here, const OrderFields& saved) {
  std::string differences;
  for (size_t i = 0; i < here.size(); ++i) {
    if (here[i] == saved[i]) continue;
    if (!differences.empty()) differences += ", ";
    differences +=
        fmt::format("{} is {}, here {}", kFieldNames[i], text_of(i, saved[i]), text_of(i, here[i]));
  }
  if (differences.empty()) return {};
  return base::make_error(StatusCode::kInvalidArgument,
                          "restore a ledger: in the job's state, {}; use the same data set and "
                          "options at each worker, and with a checkpoint those that it was saved "
                          "with",
                          differences);
}

void write(base::ByteWriter& out, const SampleRange& range) {
  out.number(range.partition);
  out.number(range.begin);
  out.number(range.end);
}

template <class Ranges>
void write_all(base::ByteWriter& out, const Ranges& ranges) {
  out.number(ranges.size());
  for (const SampleRange& range : ranges) write(out, range);
}

void write(base::ByteWriter& out, const Member& member) {
  out.text(member.id);
  out.number(member.incarnation);
}

// Reads a range. A partition number that is too large stays too large, so that validation finds it.
SampleRange read_range(base::ByteReader& in) {
  SampleRange range;
  range.partition = static_cast<uint32_t>(std::min<uint64_t>(in.number(), UINT32_MAX));
  range.begin = in.number();
  range.end = in.number();
  return range;
}

template <class Ranges>
void read_all(base::ByteReader& in, Ranges& ranges) {
  for (uint64_t left = in.number(); left > 0 && !in.failed(); --left) {
    ranges.push_back(read_range(in));
  }
}

Member read_member(base::ByteReader& in) {
  Member member;
  member.id = in.text();
  member.incarnation = in.number();
  return member;
}

}  // namespace

std::array<uint64_t, 8> LedgerRules::order_fields() const {
  return {data.samples,
          data.partition_samples,
          data.seed,
          static_cast<uint64_t>(data.shuffle),
          static_cast<uint64_t>(order),
          data.window_partitions,
          batch_samples,
          micro_batch_samples};
}

uint64_t LedgerRules::digest() const {
  const auto fields = order_fields();
  return XXH3_64bits_withSeed(fields.data(), sizeof fields, epochs);
}

std::vector<std::byte> LedgerState::encode() const {
  base::ByteWriter out(kMagic);
  for (const uint64_t field : rules_.order_fields()) out.number(field);
  out.number(batch_);
  out.number(epoch_);
  out.number(begun_);
  out.number(members_.size());
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    write(out, members_[rank]);
    write_all(out, leases_[rank]);
    out.number(is_new_[rank] ? 1 : 0);
  }
  write_all(out, returned_);
  out.number(last_.step);
  out.number(last_.parts.size());
  for (const CommittedStep::Part& part : last_.parts) {
    write(out, part.member);
    write(out, part.range);
  }
  const std::string text = std::move(out).finish();
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<LedgerState> LedgerState::decode(std::span<const std::byte> bytes,
                                        const LedgerRules& rules) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  base::ByteReader in(text, kMagic);
  LedgerState state(rules);
  auto saved = rules.order_fields();
  for (uint64_t& field : saved) field = in.number();
  state.batch_ = in.number();
  state.epoch_ = in.number();
  state.begun_ = in.number();
  for (uint64_t left = in.number(); left > 0 && !in.failed(); --left) {
    state.members_.push_back(read_member(in));
    read_all(in, state.leases_.emplace_back());
    state.is_new_.push_back(in.number() != 0);
  }
  read_all(in, state.returned_);
  state.last_.step = in.number();
  for (uint64_t left = in.number(); left > 0 && !in.failed(); --left) {
    Member member = read_member(in);
    state.last_.parts.push_back({std::move(member), read_range(in)});
  }
  if (!in.problem().empty()) return is_corrupt(in.problem());
  FFDL_RETURN_IF_ERROR(expect_same(rules.order_fields(), saved));
  if (!state.is_possible()) return is_corrupt("a ledger cannot have this state");
  return state;
}

// Reports whether the state is consistent: no sample is held twice, and each one was begun in this
// epoch.
bool LedgerState::is_possible() const {
  const DataSet& data = rules_.data;
  const bool has_batch = rules_.order == SampleOrder::kGlobal;
  if (batch_ != (has_batch ? whole_micro_batches(batch_) : 0)) return false;
  if (epoch_ > base::kEpochsMax || begun_ > data.partitions()) return false;
  if (members_.size() > base::kRanksMax) return false;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const auto same = std::find(members_.begin(), members_.end(), members_[rank]);
    if (same != members_.begin() + static_cast<std::ptrdiff_t>(rank)) return false;
  }
  std::vector<SampleRange> pieces(returned_.begin(), returned_.end());
  for (const auto& leases : leases_) pieces.insert(pieces.end(), leases.begin(), leases.end());
  std::sort(pieces.begin(), pieces.end(), [](const SampleRange& a, const SampleRange& b) {
    return a.partition != b.partition ? a.partition < b.partition : a.begin < b.begin;
  });
  const SampleRange* before = nullptr;
  for (const SampleRange& piece : pieces) {
    if (piece.partition >= data.partitions()) return false;
    const SampleRange use = data.use(piece.partition, epoch_);
    if (piece.begin < use.begin || piece.end > use.end || piece.begin >= piece.end) return false;
    if (data.place_of(piece.partition, epoch_) >= begun_) return false;
    if (before != nullptr && before->partition == piece.partition && before->end > piece.begin) {
      return false;
    }
    before = &piece;
  }
  return true;
}

}  // namespace ffdl::data
