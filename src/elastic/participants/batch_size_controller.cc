#include <algorithm>
#include <cstring>
#include <string>

#include "base/byte_records.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "ffdl/comm/micro_batch_sum.h"
#include "ffdl/tuning/batch_size.h"

namespace ffdl {
namespace {

constexpr std::string_view kBatchMagic = "ffdlbat1";

class AgreedController final : public BatchSizeController {
 public:
  // The record that members exchange and the agreed value: a batch size for a number of members.
  struct Wish {
    uint64_t samples = 0;
    uint64_t members = 0;
  };
  static_assert(sizeof(Wish) == 16, "a change needs another base::kProtocolVersion");

  explicit AgreedController(uint64_t samples) : samples_(samples) {}

  void want(uint64_t samples, int members) override {
    base::MutexLock lock(mutex_);
    mine_ = {samples, static_cast<uint64_t>(std::max(members, 0))};
  }
  uint64_t samples() const override { return samples_; }
  uint64_t share() const override {
    if (rank_ < 0) return 0;
    return even_shares(samples_, members_)[static_cast<size_t>(rank_)];
  }

  size_t record_bytes() const override { return sizeof(Wish); }
  void write_record(std::span<std::byte> record) override {
    base::MutexLock lock(mutex_);
    std::memcpy(record.data(), &mine_, sizeof mine_);
  }

  void applied(uint64_t /*step*/, const StepRecords& records) override {
    for (int rank = 0; rank < records.size(); ++rank) {
      Wish wish;
      std::memcpy(&wish, records.of(rank).data(), sizeof wish);
      if (!is_one(wish)) continue;
      agreed_ = wish;
      break;
    }
    follow();
  }

  void world_changed(const World& world) override {
    members_ = world.size();
    rank_ = world.rank;
    follow();
  }

  void stable(uint64_t /*step*/) override {}

  std::vector<std::byte> save() const override {
    base::ByteWriter out(kBatchMagic);
    for (const uint64_t value : {samples_, agreed_.samples, agreed_.members}) out.number(value);
    const std::string text = std::move(out).finish();
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  Status restore(std::span<const std::byte> bytes) override {
    base::ByteReader in({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kBatchMagic);
    const uint64_t samples = in.number();
    const Wish agreed = {in.number(), in.number()};
    std::string_view wrong = in.problem();
    const bool is_possible = samples > 0 && samples <= base::kSamplesMax &&
                             (is_one(agreed) || (agreed.samples == 0 && agreed.members == 0));
    if (wrong.empty() && !is_possible) wrong = "it is not a batch size";
    if (!wrong.empty()) {
      return base::make_error(StatusCode::kCorrupt,
                              "restore a batch size: {}; restore what another has saved", wrong);
    }
    samples_ = samples;
    agreed_ = agreed;
    follow();  // the state may be older than the world
    return {};
  }

 private:
  static bool is_one(const Wish& wish) {
    return wish.samples > 0 && wish.samples <= base::kSamplesMax && wish.members > 0 &&
           wish.members <= base::kRanksMax;
  }

  void follow() {
    if (is_one(agreed_) && agreed_.members == static_cast<uint64_t>(members_)) {
      samples_ = agreed_.samples;
    }
  }

  // Equal at all members:
  uint64_t samples_;
  Wish agreed_{};
  int members_ = 0;

  int rank_ = -1;
  base::Mutex mutex_;
  Wish mine_ FFDL_GUARDED_BY(mutex_){};
};

}  // namespace

Result<std::unique_ptr<BatchSizeController>> BatchSizeController::create(uint64_t samples) {
  if (samples < 1 || samples > base::kSamplesMax) {
    return base::invalid_argument("control a batch size: {} samples; give 1 to {}", samples,
                                  base::kSamplesMax);
  }
  return std::unique_ptr<BatchSizeController>(std::make_unique<AgreedController>(samples));
}

}  // namespace ffdl
