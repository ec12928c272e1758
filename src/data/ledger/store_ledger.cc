#include <algorithm>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/names.h"
#include "data/ledger/ledger_options.h"
#include "data/ledger/store_ledger_state.h"
#include "data/ledger/worker_lease.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/store.h"

namespace ffdl {
namespace {

using base::invalid_argument;
using base::make_error;
using data::StoreLedgerState;

// Lives that a removed worker begins in one take(). More are needed only if its lease ends again
// within the take().
constexpr int kReturnsMax = 3;

Status check(const LedgerOptions& data, const StoreLedgerOptions& options) {
  FFDL_RETURN_IF_ERROR(data::check_options(data, options.member));
  if (data.order != SampleOrder::kOnDemand) {
    return invalid_argument(
        "join the ledger of job '{}': the order is global, which needs members that step together; "
        "use SampleOrder::kOnDemand, or a session",
        options.job);
  }
  if (!base::is_name(options.job) || !base::is_name(options.id)) {
    return invalid_argument(
        "join the ledger of job '{}' as '{}': the job or the id is not a valid name; use 1 to {} "
        "letters, digits and signs except '/'",
        options.job, options.id, base::kMemberIdMax);
  }
  if (options.lease <= Duration::zero() || options.lease > base::kLeaseMax) {
    return invalid_argument("join the ledger of job '{}': the lease is {} ms; give 1 ms to 24 h",
                            options.job,
                            std::chrono::floor<std::chrono::milliseconds>(options.lease).count());
  }
  return {};
}

// Keeps the ledger as last read or written. Each write is compared with that revision, so the copy
// need not be the newest.
class StoreLedger final : public SampleLedger {
 public:
  StoreLedger(const LedgerOptions& data, const StoreLedgerOptions& options, Store& store,
              Runtime& runtime)
      : store_(store),
        runtime_(runtime),
        rules_(data::rules_of(data)),
        on_stable_(options.member.on_stable),
        job_(options.job),
        prefix_("ffdl/" + options.job + "/samples/"),
        lineage_(options.lineage),
        duration_(options.lease),
        ledger_(rules_) {
    self_.id = options.id;
    StoreLedger::want(options.member.partitions_wanted);
  }

  Status join(std::span<const std::byte> from) {
    // A worker that cannot join leaves the key of another life alone.
    FFDL_RETURN_IF_ERROR(look());
    FFDL_ASSIGN_OR_RETURN(
        lease_, data::WorkerLease::take(store_, runtime_, worker_key(self_.id), duration_));
    return begin_life(from);
  }

  uint64_t samples() const override { return rules_.data.samples; }
  // The values of this worker's last read of the store:
  uint64_t epoch() const override { return state().epoch(); }
  uint64_t committed() const override { return state().committed(); }
  bool is_done() const override { return state().is_done(); }
  uint64_t repeated() const override { return ledger_.repeated(); }
  const std::vector<SampleRange>& leases() const override { return leases_; }
  uint64_t taken() const override { return data::samples_in(taken_); }
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override {
    return data::look_up(ranges, rules_.data);
  }
  void want(int partitions) override { wanted_ = static_cast<uint64_t>(std::max(partitions, 0)); }

  Result<std::vector<SampleRange>> take(uint64_t count) override {
    FFDL_RETURN_IF_ERROR(life_status());
    if (unknown_ == Turn::kCommit) return taken_;
    FFDL_RETURN_IF_ERROR(announce(count));
    lost_batch_ = {};
    taken_ = front(std::min(count, under_way_));
    return taken_;
  }

  Status commit() override {
    FFDL_RETURN_IF_ERROR(life_status());
    FFDL_RETURN_IF_ERROR(lost_batch_);
    if (taken_.empty()) return {};
    FFDL_RETURN_IF_ERROR(take_turn(Turn::kCommit, taken(), asked_));
    taken_.clear();
    return {};
  }

  Status wait(Time deadline) override {
    FFDL_RETURN_IF_ERROR(life_status());
    if (state().is_done() || is_removed_ || !leases_.empty()) return {};
    while (true) {
      const Time look = runtime_.now() + base::kLookInterval;
      const bool is_last = deadline <= look || !base::launcher_watch().has_launcher();
      const auto now = store_.wait_change(prefix_, seen_, is_last ? deadline : look);
      if (now.ok()) {
        seen_ = std::max(seen_, *now);
        must_look_ = true;
        return {};
      }
      if (is_last || now.status().code() != StatusCode::kTimeout) return now.status();
      FFDL_RETURN_IF_ERROR(life_status());
    }
  }

  Status leave() override {
    FFDL_RETURN_IF_ERROR(life_status());
    FFDL_RETURN_IF_ERROR(write([&](StoreLedgerState& next) -> Result<Change> {
      if (!next.rank_of(self_)) return Change::kNone;
      // The samples of a commit() with an unknown outcome count as used.
      next.leave(self_, /*left_alone=*/unknown_ != Turn::kCommit);
      return Change::kPut;
    }));
    over_ = make_error(StatusCode::kCancelled,
                       "use the ledger of job '{}': '{}' has left; join it again", job_, self_.id);
    lease_.reset();
    return {};
  }

  Result<std::vector<std::byte>> save() override {
    FFDL_RETURN_IF_ERROR(life_status());
    FFDL_RETURN_IF_ERROR(look());
    const std::string bytes = ledger_.encode();
    const auto all = std::as_bytes(std::span(bytes));
    return std::vector<std::byte>(all.begin(), all.end());
  }

 private:
  enum class Change { kNone, kPut };
  enum class Turn { kNone, kAnnounce, kCommit };

  std::string worker_key(const std::string& id) const { return prefix_ + "workers/" + id; }
  std::string ledger_key() const { return prefix_ + "ledger"; }

  const data::LedgerState& state() const { return ledger_.state(); }
  int64_t lease_ms() const {
    return std::chrono::floor<std::chrono::milliseconds>(duration_).count();
  }

  Status life_status() const {
    FFDL_RETURN_IF_ERROR(over_);
    FFDL_RETURN_IF_ERROR(
        base::launcher_watch().check("worker '{}' of job '{}' and its ledger", self_.id, job_));
    return lease_->life_status();
  }
  Status end(std::string_view why) {
    over_ = make_error(StatusCode::kCancelled,
                       "use the ledger of job '{}' as '{}', life {}: {}, so other workers may get "
                       "the samples that it has leased; join again, or end",
                       job_, self_.id, self_.incarnation, why);
    return over_;
  }

  Status end_replaced() { return end("another life has begun under its id"); }

  // Makes the ledger for the beginning of a lineage, from a checkpoint if there is one.
  Result<StoreLedgerState> begin(std::span<const std::byte> from,
                                 const StoreLedgerState& before) const {
    StoreLedgerState anew(rules_);
    if (!from.empty()) {
      const std::string_view bytes(reinterpret_cast<const char*>(from.data()), from.size());
      FFDL_ASSIGN_OR_RETURN(anew, StoreLedgerState::decode(bytes, rules_));
    }
    anew.begin_lineage({lineage_, StoreLedgerState::origin_of(from)}, &before);
    return anew;
  }
  // Rejects a saved state that is not the origin of the current lineage. Otherwise a worker would
  // train with the weights of the checkpoint and the present samples.
  Status began_from(std::span<const std::byte> from, const data::Lineage& lineage) const {
    if (from.empty() || StoreLedgerState::origin_of(from) == lineage.origin) return {};
    return invalid_argument(
        "join the ledger of job '{}' from a saved state: its lineage {} has already begun from "
        "another state; use a larger lineage to reset the ledger to the saved state, or give no "
        "saved state to continue",
        job_, lineage.number);
  }

  // Adds a new life of this worker to the ledger, and starts the renewals of its lease.
  Status begin_life(std::span<const std::byte> from) {
    Member joined;
    FFDL_RETURN_IF_ERROR(write([&](StoreLedgerState& next) -> Result<Change> {
      if (next.lineage().number < lineage_ || revision_ == 0) {
        if (is_removed_) return end("the store has lost the lineage of the job");
        FFDL_ASSIGN_OR_RETURN(next, begin(from, next));
      } else {
        Status other = began_from(from, next.lineage());
        if (!other.ok()) return other;
      }
      const auto self = next.join(self_.id);
      if (!self) {
        return make_error(StatusCode::kExhausted,
                          "join the ledger of job '{}': it has {} workers; end some", job_,
                          base::kRanksMax);
      }
      joined = *self;
      return Change::kPut;
    }));
    self_ = std::move(joined);
    note_own_part();
    return lease_->begin(self_.incarnation);
  }

  // Records that other workers have removed this life, and taken back its samples. The next take()
  // begins another life, unless another process has one under this id.
  Status end_removed() {
    if (has_other_life()) return end_replaced();
    is_removed_ = true;
    unknown_ = Turn::kNone;
    Status removed = make_error(
        StatusCode::kWorldChanged,
        "use the ledger of job '{}' as '{}', life {}: it did not renew its lease of {} ms, and "
        "other workers got the samples that it had leased; drop the batch, and take the next one",
        job_, self_.id, self_.incarnation, lease_ms());
    if (!taken_.empty()) lost_batch_ = removed;
    taken_.clear();
    return removed;
  }
  bool has_other_life() const {
    const auto& members = state().members();
    return std::any_of(members.begin(), members.end(), [&](const Member& member) {
      return member.id == self_.id && member != self_;
    });
  }

  // Begins the next life of a worker that was removed. May be called again after an error.
  Status come_back() {
    FFDL_RETURN_IF_ERROR(lease_->give_up());
    FFDL_RETURN_IF_ERROR(look());
    // A key that an earlier renewal has put without an answer may remain. Any other key is one of
    // another process. An earlier try without an answer may have added a life to the ledger.
    const bool is_own = !own_key_ || own_key_->value == std::to_string(self_.incarnation);
    if (!is_own || (!has_tried_ && has_other_life())) return end_replaced();
    FFDL_RETURN_IF_ERROR(lease_->take_again(own_key_ ? own_key_->revision : 0));
    has_tried_ = true;
    const uint64_t removed = self_.incarnation;
    FFDL_RETURN_IF_ERROR(begin_life({}));
    has_tried_ = false;
    is_removed_ = false;
    turns_ = 0;
    asked_ = 0;
    base::log_warning(
        "ledger of job '{}': life {} of '{}' did not renew its lease of {} ms, so other workers "
        "got its samples; it continues as life {}",
        job_, removed, self_.id, lease_ms(), self_.incarnation);
    return {};
  }

  // Announces `count` samples, unless enough are announced. A removed worker first comes back.
  Status announce(uint64_t count) {
    for (int life = 0; life <= kReturnsMax; ++life) {
      if (state().is_done()) return {};
      if (is_removed_) FFDL_RETURN_IF_ERROR(come_back());
      if (under_way_ >= count || (under_way_ > 0 && asked_ >= count)) return {};
      // A member may have died, or the next epoch may have begun.
      if (leases_.empty()) must_look_ = true;
      const Status announced = take_turn(Turn::kAnnounce, 0, count);
      if (!is_removed_) return announced;
    }
    return make_error(StatusCode::kUnavailable,
                      "take samples of the ledger of job '{}' as '{}': its lease of {} ms ended "
                      "again and again; try again, or give it a longer one",
                      job_, self_.id, lease_ms());
  }

  // Commits and announces in one write. A turn that was found to have taken effect is not repeated.
  Status take_turn(Turn turn, uint64_t done, uint64_t next_count) {
    if (unknown_ != Turn::kNone && unknown_ != turn) {
      FFDL_RETURN_IF_ERROR(look());
      note_turns();
    }
    unknown_ = turn;
    FFDL_RETURN_IF_ERROR(write([&](StoreLedgerState& next) -> Result<Change> {
      const auto rank = next.rank_of(self_);
      if (!rank) return end_removed();
      if (next.turns(*rank) > turns_) return Change::kNone;
      if (done > next.under_way(*rank)) {
        return base::make_error(StatusCode::kConflict,
                                "commit {} samples as '{}' of job '{}': in its store this worker "
                                "has announced only {}; has the store lost its newest writes",
                                done, self_.id, job_, next.under_way(*rank));
      }
      next.take_turn(*rank, {done, next_count, partitions_for(next_count)});
      // A put of a waiting worker would wake the other waiting workers.
      return done > 0 || next.under_way(*rank) > 0 ? Change::kPut : Change::kNone;
    }));
    note_turns();
    asked_ = next_count;
    return {};
  }
  // Records that the outcome of the last turn is known.
  void note_turns() {
    if (const auto rank = ledger_.rank_of(self_)) turns_ = ledger_.turns(*rank);
    unknown_ = Turn::kNone;
  }

  uint64_t partitions_for(uint64_t count) const {
    return wanted_ == 0 ? 0 : std::max(wanted_, rules_.data.partitions_for(count));
  }

  // Applies `change` to the newest ledger and writes the result.
  template <class Make>
  Status write(Make&& change) {
    for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
      if (must_look_) FFDL_RETURN_IF_ERROR(look());
      StoreLedgerState next = ledger_;
      for (const Member& dead : dead_) next.leave(dead, /*left_alone=*/false);
      FFDL_ASSIGN_OR_RETURN(const Change made, change(next));
      if (made == Change::kNone) return {};
      const auto put = store_.compare_and_put(ledger_key(), revision_, next.encode());
      // If other workers write too, the next write reads first.
      must_look_ = !put.ok() || is_shared_;
      if (put.ok()) {
        note(std::move(next), *put);
        dead_.clear();
        return {};
      }
      if (put.status().code() != StatusCode::kConflict) return put.status();
    }
    return make_error(StatusCode::kUnavailable,
                      "write the ledger of job '{}': other workers wrote first in {} attempts; "
                      "commit more samples at a time",
                      job_, base::kContentionMax);
  }

  // Reads the newest ledger and finds the members whose keys are gone.
  Status look() {
    FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store_.list(prefix_));
    const auto find = [&](const std::string& key) -> const Entry* {
      const auto at = std::find_if(entries.begin(), entries.end(),
                                   [&](const Entry& entry) { return entry.key == key; });
      return at == entries.end() ? nullptr : &*at;
    };
    for (const Entry& entry : entries) seen_ = std::max(seen_, entry.revision);
    const Entry* own_key = find(worker_key(self_.id));
    own_key_ = own_key == nullptr ? std::optional<Entry>() : *own_key;
    const Entry* ledger = find(ledger_key());
    if (ledger == nullptr) {
      return revision_ == 0 ? Status() : end("the ledger is gone from the store");
    }
    is_shared_ = ledger->revision != revision_;
    if (is_shared_) {
      FFDL_ASSIGN_OR_RETURN(StoreLedgerState read, StoreLedgerState::decode(ledger->value, rules_));
      if (read.lineage().number > lineage_) return end("a larger lineage of the job has begun");
      note(std::move(read), ledger->revision);
    }
    dead_.clear();
    for (const Member& member : state().members()) {
      const Entry* key = find(worker_key(member.id));
      // An empty value: a life of that id begins and will end the one before.
      const bool lives = key != nullptr && (key->value.empty() ||
                                            key->value == std::to_string(member.incarnation));
      if (!lives && member != self_) dead_.push_back(member);
    }
    must_look_ = false;
    return {};
  }

  void note(StoreLedgerState ledger, Revision revision) {
    ledger_ = std::move(ledger);
    revision_ = revision;
    note_own_part();
    const CommittedStep& last = state().last();
    if (!on_stable_ || ledger_.lineage().number != lineage_ || last.parts.empty()) return;
    if (reported_ >= last.step) return;
    reported_ = last.step;
    CommittedStep reported = last;
    reported.lineage = lineage_;
    on_stable_(reported);
  }

  void note_own_part() {
    const auto rank = ledger_.rank_of(self_);
    under_way_ = rank ? ledger_.under_way(*rank) : 0;
    leases_ = rank ? state().leases(*rank) : std::vector<SampleRange>();
  }

  std::vector<SampleRange> front(uint64_t count) const {
    const auto rank = ledger_.rank_of(self_);
    return rank ? state().front(*rank, count) : std::vector<SampleRange>();
  }

  Store& store_;
  Runtime& runtime_;
  const data::LedgerRules rules_;
  const std::function<void(const CommittedStep&)> on_stable_;
  const std::string job_;
  const std::string prefix_;
  const uint64_t lineage_;
  const Duration duration_;
  Member self_{};
  uint64_t wanted_ = 0;
  std::unique_ptr<data::WorkerLease> lease_;
  Status over_{};
  bool is_removed_ = false;  // by other workers, and it has not come back yet
  bool has_tried_ = false;   // to come back: the ledger may have a life of it that it does not know
  std::optional<Entry> own_key_{};  // of this worker's id, at the last look
  Status lost_batch_{};             // the error of commit() until the next take()

  // The ledger as this worker knows it, and this worker's part of it.
  StoreLedgerState ledger_;
  Revision revision_ = 0;
  std::vector<Member> dead_{};
  std::vector<SampleRange> leases_{};
  uint64_t under_way_ = 0;

  Revision seen_ = 0;
  bool must_look_ = true;
  bool is_shared_ = false;      // other workers wrote between this worker's last two reads
  uint64_t turns_ = 0;          // turns of this life that are known to have taken effect
  Turn unknown_ = Turn::kNone;  // the turn with an unknown outcome
  uint64_t asked_ = 0;          // number of samples that it last announced
  std::vector<SampleRange> taken_{};
  uint64_t reported_ = 0;
};

}  // namespace

Result<std::unique_ptr<SampleLedger>> make_store_ledger(const LedgerOptions& options,
                                                        const StoreLedgerOptions& worker,
                                                        Store& store, Runtime& runtime) {
  FFDL_RETURN_IF_ERROR(check(options, worker));
  auto ledger = std::make_unique<StoreLedger>(options, worker, store, runtime);
  FFDL_RETURN_IF_ERROR(ledger->join(worker.from));
  return std::unique_ptr<SampleLedger>(std::move(ledger));
}

}  // namespace ffdl
