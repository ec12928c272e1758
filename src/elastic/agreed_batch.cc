#include "ffdl/agreed_batch.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/byte_records.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "ffdl/micro_batch_sum.h"

namespace ffdl {
namespace {

constexpr std::string_view kBatchMagic = "ffdlbat1";

}  // namespace

class AgreedBatch::Impl {
 public:
  // What travels, and what is agreed: so many samples with so many members.
  struct Wish {
    uint64_t samples = 0;
    uint64_t members = 0;
  };
  static_assert(sizeof(Wish) == 16);

  explicit Impl(uint64_t samples) : samples_(samples) {}

  void want(const Wish& wish) {
    base::MutexLock lock(mutex_);
    mine_ = wish;
  }
  uint64_t samples() const { return samples_; }
  uint64_t share() const {
    if (rank_ < 0) return 0;
    return even_shares(samples_, members_)[static_cast<size_t>(rank_)];
  }

  void describe(std::span<std::byte> record) {
    base::MutexLock lock(mutex_);
    std::memcpy(record.data(), &mine_, sizeof mine_);
  }

  void applied(const StepRecords& records) {
    for (int rank = 0; rank < records.size(); ++rank) {
      Wish wish;
      std::memcpy(&wish, records.of(rank).data(), sizeof wish);
      if (!is_one(wish)) continue;
      agreed_ = wish;
      break;
    }
    follow();
  }

  void world_changed(const World& world) {
    members_ = world.size();
    rank_ = world.rank;
    follow();
  }

  std::vector<std::byte> save() const {
    base::ByteWriter out(kBatchMagic);
    for (const uint64_t value : {samples_, agreed_.samples, agreed_.members}) out.number(value);
    const std::string text = std::move(out).finish();
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  Status restore(std::span<const std::byte> bytes) {
    base::ByteReader in({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kBatchMagic);
    const uint64_t samples = in.number();
    const Wish agreed = {in.number(), in.number()};
    std::string_view wrong = in.problem();
    const bool is_possible = samples > 0 && samples <= base::kSamplesMax &&
                             (is_one(agreed) || (agreed.samples == 0 && agreed.members == 0));
    if (wrong.empty() && !is_possible) wrong = "it is no batch";
    if (!wrong.empty()) {
      return base::make_error(StatusCode::kCorrupt,
                              "restore an agreed batch: {}; restore what another has saved", wrong);
    }
    samples_ = samples;
    agreed_ = agreed;
    follow();  // it may have been saved before the world changed
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

  // The same at all members.
  uint64_t samples_;
  Wish agreed_{};
  int members_ = 0;

  int rank_ = -1;
  base::Mutex mutex_;
  Wish mine_ FFDL_GUARDED_BY(mutex_){};
};

Result<std::unique_ptr<AgreedBatch>> AgreedBatch::create(uint64_t samples) {
  if (samples < 1 || samples > base::kSamplesMax) {
    return base::invalid_argument("make an agreed batch: {} samples; give 1 to {}", samples,
                                  base::kSamplesMax);
  }
  return std::unique_ptr<AgreedBatch>(new AgreedBatch(std::make_unique<Impl>(samples)));
}

AgreedBatch::AgreedBatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgreedBatch::~AgreedBatch() = default;

void AgreedBatch::want(uint64_t samples, int members) {
  impl_->want({samples, static_cast<uint64_t>(std::max(members, 0))});
}
uint64_t AgreedBatch::samples() const { return impl_->samples(); }
uint64_t AgreedBatch::share() const { return impl_->share(); }

size_t AgreedBatch::record_bytes() const { return sizeof(Impl::Wish); }
void AgreedBatch::describe(std::span<std::byte> record) { impl_->describe(record); }
void AgreedBatch::applied(uint64_t /*step*/, const StepRecords& records) {
  impl_->applied(records);
}
void AgreedBatch::world_changed(const World& world) { impl_->world_changed(world); }
void AgreedBatch::stable(uint64_t /*step*/) {}
std::vector<std::byte> AgreedBatch::save() const { return impl_->save(); }
Status AgreedBatch::restore(std::span<const std::byte> bytes) { return impl_->restore(bytes); }

}  // namespace ffdl
