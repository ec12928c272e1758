#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/errors.h"
#include "ps/rules/gradient_kernels.h"
#include "ps/rules/journalled_rule.h"
#include "ps/segment/journal_word.h"
#include "ps/segment/layout.h"
#include "ps/segment/shared_copy.h"
#include "ps/server/device_fold.h"

// Folds published gradients into one shard. A kill at any instruction loses and repeats nothing.
// The order of stores is the protocol: docs/internals/protocol-ps.md, tests/models/ps_slots.pml.
namespace ffdl::ps {

// Points at which a test may kill the server.
enum class FoldStep : uint8_t {
  kLoadPub,
  kWriteRecord,
  kWriteShadow,
  kStoreJournal,
  kCopyHalf,
  kCopyShadow,
  kStoreFolded,
  kFoldMember,
};

// Continues at each step, as an ordinary server does. A test's hooks return false to end the fold
// there. The benchmark of the journal's cost omits the journal.
struct NoHooks {
  static constexpr bool kJournal = true;
  static constexpr bool kMayDie = false;
  bool alive(FoldStep) { return true; }
};

// Keeps the compiler from moving a plain store across the protocol's stores. A killed server leaves
// its stores up to one point of its machine code.
inline void keep_store_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

template <class Hooks = NoHooks>
class ShardFold {
 public:
  // `device` computes the new values of batches; null: the processor does.
  ShardFold(const Region& region, const UpdateRule& rule, int shard, Hooks hooks = {},
            DeviceFold* device = nullptr)
      : region_(region),
        config_(region_.config()),
        rule_(rule),
        journalled_rule_(dynamic_cast<const JournalledRule*>(&rule)),
        words_(region_.shard(shard)),
        k_(shard),
        first_block_(region_.shard_begin(shard)),
        blocks_(region_.shard_end(shard) - first_block_),
        version_(region_.version(shard)),
        hooks_(hooks),
        device_(device) {}

  // Returns the number of published gradients folded into this shard.
  uint64_t version() const { return version_; }

  // Makes the processor compute everything from this call on.
  void leave_device() { device_ = nullptr; }

  // Finishes an interrupted fold of a killed predecessor. Returns true if there was one.
  Result<bool> recover() {
    finish_round_members();
    version_ = region_.version(k_);
    const auto word = JournalWord::unpack(words_.journal.load(std::memory_order_acquire));
    bool interrupted = false;
    if (word.block_plus_one > 0 && word.learner == JournalWord::kRound) {
      const uint64_t round = words_.round_folded.load(std::memory_order_acquire) + 1;
      interrupted = static_cast<uint32_t>(round) == word.sequence_low;
      if (interrupted) {
        FFDL_RETURN_IF_ERROR(region_.folds_batches() ? gather_batch(round) : gather_round(round));
        FFDL_RETURN_IF_ERROR(redo_copy(word));
      }
    } else if (word.block_plus_one > 0 && word.learner < region_.learners_max()) {
      const uint64_t q = region_.folded(k_, word.learner).load(std::memory_order_acquire) + 1;
      interrupted = static_cast<uint32_t>(q) == word.sequence_low;
      if (interrupted) {
        FFDL_RETURN_IF_ERROR(gather(word.learner, q));
        FFDL_RETURN_IF_ERROR(redo_copy(word));
      }
    }
    // A predecessor may have died between the last store of a fold and the end of its seqlock.
    if (words_.seqlock.load(std::memory_order_relaxed) % 2 == 1) end_change();
    return interrupted;
  }

  // Folds the next published gradient of learner l. Errors: kCorrupt; kCancelled from hooks.
  Status fold(int l) {
    const uint64_t q = region_.folded(k_, l).load(std::memory_order_relaxed) + 1;
    FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kLoadPub));
    FFDL_RETURN_IF_ERROR(gather(l, q));
    return run_from(0);
  }

  // Folds the next round (Synchrony::kBulk): its members' mean is one update.
  Status fold_round() {
    const uint64_t round = words_.round_folded.load(std::memory_order_relaxed) + 1;
    FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kLoadPub));
    FFDL_RETURN_IF_ERROR(gather_round(round));
    return run_from(0);
  }

  // Folds the next gradients of some learners as one change (a batch). Each is an update, in the
  // order of the learners. No reader sees the states between them. The gradients are dense or
  // empty.
  Status fold_batch(std::span<const int> learners) {
    const uint64_t batch = words_.round_folded.load(std::memory_order_relaxed) + 1;
    FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kLoadPub));
    for (int l = 0; l < region_.learners_max(); ++l) {
      const bool in = std::ranges::find(learners, l) != learners.end();
      const uint64_t q = region_.folded(k_, l).load(std::memory_order_relaxed) + 1;
      region_.batch_sequence(k_, batch, l).store(in ? q : 0, std::memory_order_relaxed);
      FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kWriteRecord));
    }
    keep_store_order();
    FFDL_RETURN_IF_ERROR(gather_batch(batch));
    if (device_ == nullptr || weight_steps_ == 0) return run_from(0);
    FFDL_RETURN_IF_ERROR(compute_on_device());
    by_device_ = true;
    Status folded = run_from(0);
    by_device_ = false;
    return folded;
  }

 private:
  // One gradient of the current update.
  struct Source {
    int learner;
    uint64_t sequence;
    const Meta* meta;
    GradientBuffer gradient;
    std::span<const TouchedRange> touched;
    float scale;

    bool has_gradient() const { return meta->mini_batches > 0; }
    bool is_sparse() const { return meta->form == GradientForm::kSparse; }
  };

  Status die_unless(FoldStep step) {
    if (hooks_.alive(step)) return {};
    return Status(StatusCode::kCancelled, "killed by a test");
  }

  Status gather(int l, uint64_t q) {
    journal_learner_ = l;
    journal_sequence_ = q;
    update_number_ = version_ + 1;
    in_turn_ = false;
    sources_.clear();
    FFDL_RETURN_IF_ERROR(add_source(l, q));
    plan_steps();
    return {};
  }

  Status gather_batch(uint64_t batch) {
    journal_learner_ = JournalWord::kRound;
    journal_sequence_ = batch;
    update_number_ = version_ + 1;
    in_turn_ = true;
    sources_.clear();
    for (int l = 0; l < region_.learners_max(); ++l) {
      const uint64_t q = region_.batch_sequence(k_, batch, l).load(std::memory_order_relaxed);
      if (q != 0) FFDL_RETURN_IF_ERROR(add_source(l, q));
    }
    plan_steps();
    return {};
  }

  Status gather_round(uint64_t round) {
    journal_learner_ = JournalWord::kRound;
    journal_sequence_ = round;
    update_number_ = round;
    in_turn_ = false;
    sources_.clear();
    for (int l = 0; l < region_.learners_max(); ++l) {
      const uint64_t q = region_.round_sequence(round, l).load(std::memory_order_relaxed);
      if (q != 0) FFDL_RETURN_IF_ERROR(add_source(l, q));
    }
    // The mean is over the sources that have a gradient.
    const auto gradients = std::count_if(sources_.begin(), sources_.end(),
                                         [](const Source& s) { return s.has_gradient(); });
    for (Source& source : sources_) {
      source.scale /= static_cast<float>(std::max<int64_t>(gradients, 1));
    }
    plan_steps();
    return {};
  }

  // Plans the steps: the shard's floats, or the touched parts.
  void plan_steps() {
    bool updates = false;
    dense_ = false;
    std::vector<TouchedRange> touched;
    for (const Source& source : sources_) {
      if (!source.has_gradient()) continue;
      updates = true;
      dense_ = dense_ || !source.is_sparse();
      if (!dense_) touched = unite(touched, source.touched);
    }
    // Only data in the segment decides, so that a successor plans the same steps.
    const bool in_runs = config_.custom_rule == 0 && sources_.size() == 1 && !in_turn_ &&
                         config_.gradient_type == DType::kFloat32;
    step_floats_ = dense_ && in_runs ? kRunFloats : kBlockFloats;
    weight_steps_ = updates ? blocks_ * (kBlockFloats / step_floats_) : 0;
    if (!updates || dense_) return;
    parts_.plan(touched, {first_block_ * kBlockFloats, (first_block_ + blocks_) * kBlockFloats},
                kBlockFloats);
    weight_steps_ = parts_.size();
  }

  // Returns the number of steps: those of the weights, and for shard 0 one for the ledger.
  uint64_t steps() const { return weight_steps_ + (k_ == 0 ? 1 : 0); }

  // Returns the parts that step n updates.
  std::span<const TouchedRange> parts_of(uint64_t n) {
    if (!dense_) return parts_.step(n);
    const uint64_t begin = first_block_ * kBlockFloats + n * step_floats_;
    dense_part_ = {begin, begin + step_floats_};
    return {&dense_part_, 1};
  }

  Status add_source(int l, uint64_t q) {
    const Meta& meta = region_.meta(l, q);
    const bool sizes_fit = meta.ranges <= config_.ranges_max && meta.touched <= config_.rows_max;
    const auto touched = region_.touched(l, q).first(sizes_fit ? meta.touched : 0);
    if (meta.sequence != q || !sizes_fit ||
        meta.checksum != meta_checksum(meta, region_.ranges(l, q).first(meta.ranges), touched)) {
      return base::make_error(StatusCode::kCorrupt,
                              "fold gradient {} of learner {}: its record fails the checksum; "
                              "something wrote over the segment: restore from a checkpoint",
                              q, l);
    }
    if (meta.owner != owner_of(region_, l, q)) {
      return base::make_error(StatusCode::kCorrupt,
                              "fold gradient {} of learner {}: it was published by no owner of the "
                              "slot; something wrote over the segment, or two processes used the "
                              "slot: restore from a checkpoint",
                              q, l);
    }
    const bool mean = rule_.takes_mean() && meta.mini_batches > 1;
    const float scale =
        mean ? meta.clip_scale / static_cast<float>(meta.mini_batches) : meta.clip_scale;
    sources_.push_back({l, q, &meta, region_.gradient(l, q), touched, scale});
    return {};
  }

  // Returns the step of the whole change. If sources are folded in turn, returns that of one
  // source.
  UpdateStep update_step(size_t source = 0) const {
    UpdateStep step;
    step.number = update_number_ + source;
    step.learning_rate =
        config_.rule.learning_rate * schedule_factor(config_.schedule, step.number);
    step.clip_value = config_.clip_value;
    step.mini_batches = std::max(sources_[source].meta->mini_batches, 1U);
    step.gradient_scale = sources_.size() == 1 || in_turn_ ? sources_[source].scale : 1;
    return step;
  }

  // Runs before any change: if it fails, the fold has not begun.
  Status compute_on_device() {
    const uint64_t begin = first_block_ * kBlockFloats;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].has_gradient()) continue;
      FFDL_RETURN_IF_ERROR(
          device_->add(update_step(i), sources_[i].gradient.bytes(begin, blocks_ * kBlockFloats)));
    }
    return device_->start_fetch();
  }

  Status run_from(uint64_t next) {
    begin_change();
    const UpdateStep step = update_step();
    if (can_run() && next < weight_steps_) {
      run_steps(next, step);
      next = weight_steps_;
    }
    for (uint64_t n = next; n < steps(); ++n) {
      FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kWriteShadow));
      const uint64_t parity = (n + 1) & 1;
      if (n < weight_steps_ && by_device_) {
        FFDL_RETURN_IF_ERROR(fetch_shadow(n, parity));
      } else if (n < weight_steps_) {
        write_shadow(n, parity, step);
      } else {
        write_ledger_shadow(parity);
      }
      if constexpr (Hooks::kJournal) {
        FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kStoreJournal));
        const JournalWord word{journal_learner_, n + 1, static_cast<uint32_t>(journal_sequence_)};
        words_.journal.store(word.pack(), std::memory_order_release);  // pairs with recover()
        keep_store_order();
      }
      FFDL_RETURN_IF_ERROR(copy_shadow(n, parity));
    }
    return store_folded();
  }

  Status redo_copy(JournalWord word) {
    const uint64_t n = word.block_plus_one - 1;
    if (n >= steps()) {
      return base::make_error(
          StatusCode::kCorrupt,
          "finish an interrupted fold: the journal of shard {} names step {} of "
          "{}; something wrote over the segment: restore from a checkpoint",
          k_, n, steps());
    }
    begin_change();
    FFDL_RETURN_IF_ERROR(copy_shadow(n, word.block_plus_one & 1));
    return run_from(n + 1);
  }

  bool can_run() const {
#ifdef FFDL_ATOMIC_COPIES
    return false;  // the kernels' stores are not atomic
#else
    return !Hooks::kMayDie && journalled_rule_ != nullptr && step_floats_ == kRunFloats;
#endif
  }

  // Updates all weights from step n on, with the same stores in the same order as run_from().
  void run_steps(uint64_t n, const UpdateStep& step) {
    const uint64_t begin = parts_of(n).front().begin;
    JournalledRun run;
    run.steps = weight_steps_ - n;
    run.first = n;
    run.gradient = sources_.front().gradient.floats() + begin;
    run.weights = region_.weights() + begin;
    for (uint32_t plane = 0; plane <= config_.state_count; ++plane) {
      if (plane > 0) run.state[plane - 1] = region_.state(plane - 1) + begin;
      for (const uint64_t parity : {0U, 1U}) {
        run.shadow[parity][plane] = region_.shadow(k_, parity, plane);
      }
    }
    run.journal = &words_.journal;
    run.journal_word =
        JournalWord{journal_learner_, 0, static_cast<uint32_t>(journal_sequence_)}.pack();
    journalled_rule_->run(step, run);
  }

  // Copies one block of new values from the device to the shadow.
  Status fetch_shadow(uint64_t n, uint64_t parity) {
    for (uint32_t plane = 0; plane <= config_.state_count; ++plane) {
      FFDL_ASSIGN_OR_RETURN(const float* const values, device_->fetched(n, plane));
      copy_floats(region_.shadow(k_, parity, plane), values, kBlockFloats);
    }
    return {};
  }

  void write_shadow(uint64_t n, uint64_t parity, const UpdateStep& step) {
    if (in_turn_) return write_shadow_in_turn(n, parity);
    uint64_t at = 0;  // in the shadow
    for (const TouchedRange& part : parts_of(n)) {
      write_shadow_part(part, at, parity, step);
      at += padded_count(part);
    }
  }

  // Rules require whole vectors at aligned addresses, so other parts go through copies.
  void write_shadow_part(const TouchedRange& part, uint64_t at, uint64_t parity,
                         const UpdateStep& step) {
    const uint64_t count = part.end - part.begin;
    const bool aligned = part.begin % 16 == 0 && count % 16 == 0;
    const auto values = [&](const float* array, uint32_t plane) -> const float* {
      if (aligned) return array + part.begin;
      return std::copy_n(array + part.begin, count, scratch_.old[plane]) - count;
    };
    UpdateBlock block;
    block.count = padded_count(part);
    block.weights = values(region_.weights(), 0);
    block.new_weights = region_.shadow(k_, parity, 0) + at;
    for (uint32_t s = 0; s < config_.state_count; ++s) {
      block.state[s] = values(region_.state(s), 1 + s);
      block.new_state[s] = region_.shadow(k_, parity, 1 + s) + at;
    }
    block.gradient = gradient_of(part, aligned);
    rule_.apply(step, block);
  }

  // Computes the device's bits without it, so that a successor without a device can finish a batch.
  void write_shadow_in_turn(uint64_t n, uint64_t parity) {
    const TouchedRange part = parts_of(n).front();
    UpdateBlock block;
    block.count = kBlockFloats;
    block.weights = region_.weights() + part.begin;
    block.new_weights = region_.shadow(k_, parity, 0);
    for (uint32_t s = 0; s < config_.state_count; ++s) {
      block.state[s] = region_.state(s) + part.begin;
      block.new_state[s] = region_.shadow(k_, parity, 1 + s);
    }
    const auto keep = [&](const float* values, uint32_t plane) {
      copy_floats(scratch_.old[plane], values, kBlockFloats);
      return scratch_.old[plane];
    };
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].has_gradient()) continue;
      block.gradient = sources_[i].gradient.read(part.begin, kBlockFloats, scratch_.gradient);
      rule_.apply(update_step(i), block);
      block.weights = keep(block.new_weights, 0);
      for (uint32_t s = 0; s < config_.state_count; ++s) {
        block.state[s] = keep(block.new_state[s], 1 + s);
      }
    }
  }

  // Returns the gradient of one part: that of the only source, or the sum over the round.
  const float* gradient_of(const TouchedRange& part, bool aligned) {
    const uint64_t count = part.end - part.begin;
    if (sources_.size() == 1) {
      const float* read = sources_.front().gradient.read(part.begin, count, scratch_.gradient);
      if (aligned || read == scratch_.gradient) return read;
      return std::copy_n(read, count, scratch_.gradient) - count;
    }
    std::fill_n(scratch_.gradient, kBlockFloats, 0.0F);
    for (const Source& source : sources_) {
      if (!source.has_gradient()) continue;
      const auto add = [&](const TouchedRange& inside) {
        const uint64_t length = inside.end - inside.begin;
        const float* read = source.gradient.read(inside.begin, length, scratch_.widened);
        add_scaled(scratch_.gradient + (inside.begin - part.begin), read, source.scale, length);
      };
      if (!source.is_sparse()) {
        add(part);
        continue;
      }
      split(part, source.touched, [&](const TouchedRange& piece, bool inside) {
        if (inside) add(piece);
      });
    }
    return scratch_.gradient;
  }

  Status copy_shadow(uint64_t n, uint64_t parity) {
    if (n >= weight_steps_) return copy_ledger_shadow(parity);
    uint64_t at = 0;
    for (const TouchedRange& part : parts_of(n)) {
      const uint64_t count = part.end - part.begin;
      const uint64_t half = count / 2;
      const float* shadow = region_.shadow(k_, parity, 0) + at;
      copy_to_shared(region_.weights() + part.begin, shadow, half);
      FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kCopyHalf));
      copy_to_shared(region_.weights() + part.begin + half, shadow + half, count - half);
      for (uint32_t s = 0; s < config_.state_count; ++s) {
        copy_to_shared(region_.state(s) + part.begin, region_.shadow(k_, parity, 1 + s) + at,
                       count);
      }
      at += padded_count(part);
    }
    return die_unless(FoldStep::kCopyShadow);
  }

  // Writes the new values of the ledger, shard 0's last block, which records this update's samples.
  void write_ledger_shadow(uint64_t parity) {
    entries_.clear();
    uint64_t version = version_;
    for (const Source& source : sources_) {
      for (const SampleRange& range :
           region_.ranges(source.learner, source.sequence).first(source.meta->ranges)) {
        note_range(range);
      }
      const int l = source.learner;
      change(region_.slot_word(l, kMiniBatches)) += source.meta->mini_batches;
      change(region_.slot_word(l, kSkipped)) += source.meta->skipped;
      change(region_.slot_word(l, kSlotSamples)) += source.meta->samples;
      if (source.meta->mini_batches > 0) {
        const uint64_t base = std::min(source.meta->base_version, version);
        const auto bucket = static_cast<uint64_t>(std::bit_width(version - base));
        change(region_.staleness_word(std::min(bucket, kStalenessWords - 1))) += 1;
      }
      if (in_turn_) ++version;
    }
    region_.ledger_shadow_count(parity) = entries_.size();
    std::copy(entries_.begin(), entries_.end(), region_.ledger_shadow(parity));
  }

  void note_range(const SampleRange& range) {
    uint64_t& committed = change(region_.partition_word(range.partition, kCommitted));
    const uint64_t expected = committed;
    committed = std::max(expected, range.end);
    change(region_.partition_word(range.partition, kSamples)) += range.end - range.begin;
    if (range.begin < expected) {
      change(region_.partition_word(range.partition, kRepeated)) +=
          std::min(expected, range.end) - range.begin;
    } else {
      change(region_.partition_word(range.partition, kMissing)) += range.begin - expected;
    }
  }

  // Returns the new value of a ledger word in this update, initially the old one. The reference is
  // valid until the next call.
  uint64_t& change(uint64_t word) {
    for (LedgerEntry& entry : entries_) {
      if (entry.word == word) return entry.value;
    }
    entries_.push_back({word, region_.ledger(word).load(std::memory_order_relaxed)});
    return entries_.back().value;
  }

  Status copy_ledger_shadow(uint64_t parity) {
    const uint64_t count = region_.ledger_shadow_count(parity);
    const LedgerEntry* entries = region_.ledger_shadow(parity);
    for (uint64_t i = 0; i < count; ++i) {
      region_.ledger(entries[i].word).store(entries[i].value, std::memory_order_relaxed);
      if (i == count / 2) FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kCopyHalf));
    }
    return die_unless(FoldStep::kCopyShadow);
  }

  Status store_folded() {
    if (journal_learner_ == JournalWord::kRound) {
      words_.round_folded.store(journal_sequence_, std::memory_order_seq_cst);
      keep_store_order();
      for (const Source& source : sources_) {
        FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kFoldMember));
        region_.folded(k_, source.learner).store(source.sequence, std::memory_order_seq_cst);
      }
    } else {
      // After the last copy and the last access to gradient and meta: the learner may now overwrite
      // them. Pairs with the loads in Learner and in Doorbell::wait_until.
      region_.folded(k_, journal_learner_).store(journal_sequence_, std::memory_order_seq_cst);
    }
    keep_store_order();
    version_ += sources_.size();
    FFDL_RETURN_IF_ERROR(die_unless(FoldStep::kStoreFolded));
    end_change();
    return {};
  }

  // Stores the members' words of the last round or batch, which one store to round_folded has
  // folded.
  void finish_round_members() {
    const bool batches = region_.folds_batches();
    if (config_.synchrony != Synchrony::kBulk && !batches) return;
    const uint64_t round = words_.round_folded.load(std::memory_order_acquire);
    // A round's record is valid until the next but one is formed, which waits for all shards. A
    // batch's record is valid until this shard writes the next but one.
    for (int l = 0; round > 0 && l < region_.learners_max(); ++l) {
      const uint64_t q =
          (batches ? region_.batch_sequence(k_, round, l) : region_.round_sequence(round, l))
              .load(std::memory_order_relaxed);
      if (q > region_.folded(k_, l).load(std::memory_order_relaxed)) {
        region_.folded(k_, l).store(q, std::memory_order_seq_cst);
      }
    }
  }

  void begin_change() {
    if (words_.seqlock.load(std::memory_order_relaxed) % 2 == 0) {
      words_.seqlock.fetch_add(1, std::memory_order_acq_rel);  // pairs with snapshot readers
    }
  }
  void end_change() { words_.seqlock.fetch_add(1, std::memory_order_release); }

  const Region region_;
  const Config& config_;
  const UpdateRule& rule_;
  const JournalledRule* const journalled_rule_;  // null: a rule of the user's own
  ShardWords& words_;
  const int k_;
  const uint64_t first_block_;
  const uint64_t blocks_;
  uint64_t version_;
  [[no_unique_address]] Hooks hooks_;
  DeviceFold* device_;

  // The current update.
  int journal_learner_ = 0;
  uint64_t journal_sequence_ = 0;
  uint64_t update_number_ = 0;
  bool in_turn_ = false;    // a batch: each source is an update, not their mean
  bool by_device_ = false;  // the device has computed the new values
  std::vector<Source> sources_;
  bool dense_ = false;  // all blocks of the shard are steps, not the parts
  uint64_t weight_steps_ = 0;
  TouchedSteps parts_;
  uint64_t step_floats_ = kBlockFloats;  // in a dense update
  TouchedRange dense_part_;
  std::vector<LedgerEntry> entries_;

  struct alignas(64) Scratch {
    float gradient[kBlockFloats] = {};
    float widened[kBlockFloats] = {};
    float old[1 + kRuleStateMax][kBlockFloats] = {};
  };
  Scratch scratch_;  // for one part
};

}  // namespace ffdl::ps
