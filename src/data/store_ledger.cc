#include "ffdl/store_ledger.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/names.h"
#include "data/ledger_options.h"
#include "data/stored_ledger.h"
#include "data/worker_lease.h"

namespace ffdl {
namespace {

using base::invalid_argument;
using base::make_error;
using data::StoredLedger;

Status check(const StoreLedgerOptions& options) {
  FFDL_RETURN_IF_ERROR(data::check_options(options.data));
  if (options.data.order != SampleOrder::kOnDemand) {
    return invalid_argument(
        "join the ledger of job '{}': the order is global, which needs members that step together; "
        "use SampleOrder::kOnDemand, or a session",
        options.job);
  }
  if (!base::is_name(options.job) || !base::is_name(options.id)) {
    return invalid_argument(
        "join the ledger of job '{}' as '{}': that is no name; use 1 to {} letters, digits and "
        "signs but '/'",
        options.job, options.id, base::kMemberIdMax);
  }
  if (options.lease <= Duration::zero() || options.lease > base::kLeaseMax) {
    return invalid_argument("join the ledger of job '{}': the lease is {} ms; give 1 ms to 24 h",
                            options.job,
                            std::chrono::floor<std::chrono::milliseconds>(options.lease).count());
  }
  return {};
}

}  // namespace

// It knows the ledger as it last read or wrote it. What it writes is compared with that, so that it
// need not be the newest.
class StoreLedger::Impl {
 public:
  Impl(const StoreLedgerOptions& options, Store& store, Runtime& runtime)
      : store_(store),
        runtime_(runtime),
        rules_(data::rules_of(options.data)),
        on_stable_(options.data.on_stable),
        job_(options.job),
        prefix_("ffdl/" + options.job + "/samples/"),
        lineage_(options.lineage),
        duration_(options.lease),
        ledger_(rules_) {
    self_.id = options.id;
    want(options.data.partitions_wanted);
  }

  Status join(std::span<const std::byte> from) {
    // Who cannot join does not touch the key of another life.
    FFDL_RETURN_IF_ERROR(look());
    FFDL_ASSIGN_OR_RETURN(
        lease_, data::WorkerLease::take(store_, runtime_, worker_key(self_.id), duration_));
    FFDL_RETURN_IF_ERROR(write([&](StoredLedger& next) -> Result<Change> {
      if (next.lineage().number < lineage_ || revision_ == 0) {
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
      self_ = *self;
      return Change::kPut;
    }));
    return lease_->begin(self_.incarnation);
  }

  const data::DataSet& data() const { return rules_.data; }
  const data::LedgerState& state() const { return ledger_.state(); }
  const std::vector<SampleRange>& leases() const { return leases_; }
  const Member& self() const { return self_; }
  uint64_t taken() const { return data::samples_in(taken_); }
  void want(int partitions) { wanted_ = static_cast<uint64_t>(std::max(partitions, 0)); }
  StoreLedgerStats stats() const {
    StoreLedgerStats stats = stats_;
    stats.repeated = ledger_.repeated();
    return stats;
  }

  Result<std::vector<SampleRange>> take(uint64_t count) {
    FFDL_RETURN_IF_ERROR(standing());
    if (unknown_ == Turn::kCommit) return taken_;
    if (!state().is_done() && under_way_ < count && (under_way_ == 0 || asked_ < count)) {
      // Somebody may have died, or begun the next epoch.
      if (leases_.empty()) must_look_ = true;
      FFDL_RETURN_IF_ERROR(take_turn(Turn::kAnnounce, 0, count));
    }
    taken_ = front(std::min(count, under_way_));
    return taken_;
  }

  Status advance() {
    FFDL_RETURN_IF_ERROR(standing());
    if (taken_.empty()) return {};
    FFDL_RETURN_IF_ERROR(take_turn(Turn::kCommit, taken(), asked_));
    taken_.clear();
    ++stats_.commits;
    return {};
  }

  Status wait(Time deadline) {
    FFDL_RETURN_IF_ERROR(standing());
    if (state().is_done() || !leases_.empty()) return {};
    FFDL_ASSIGN_OR_RETURN(const Revision now, store_.wait_change(prefix_, seen_, deadline));
    seen_ = std::max(seen_, now);
    must_look_ = true;
    return {};
  }

  Status leave() {
    FFDL_RETURN_IF_ERROR(standing());
    FFDL_RETURN_IF_ERROR(write([&](StoredLedger& next) -> Result<Change> {
      if (!next.rank_of(self_)) return Change::kNone;
      // What advance() may not have committed was used.
      next.leave(self_, /*left_alone=*/unknown_ != Turn::kCommit);
      return Change::kPut;
    }));
    over_ = make_error(StatusCode::kCancelled, "use the ledger of job '{}': '{}' has left", job_,
                       self_.id);
    lease_.reset();
    return {};
  }

  Result<std::vector<std::byte>> save() {
    FFDL_RETURN_IF_ERROR(standing());
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

  Status standing() const {
    FFDL_RETURN_IF_ERROR(over_);
    return lease_->standing();
  }
  Status end(std::string_view why) {
    over_ = make_error(StatusCode::kCancelled,
                       "use the ledger of job '{}' as '{}', life {}: {}; what it had taken is "
                       "another's. Join again, or end",
                       job_, self_.id, self_.incarnation, why);
    return over_;
  }

  // The ledger at the beginning of a lineage, or where a checkpoint has it.
  Result<StoredLedger> begin(std::span<const std::byte> from, const StoredLedger& before) const {
    StoredLedger anew(rules_);
    if (!from.empty()) {
      const std::string_view bytes(reinterpret_cast<const char*>(from.data()), from.size());
      FFDL_ASSIGN_OR_RETURN(anew, StoredLedger::decode(bytes, rules_));
    }
    anew.begin_lineage({lineage_, StoredLedger::origin_of(from)}, &before);
    return anew;
  }
  // Who would go on from a checkpoint, and forgot to say that the job begins anew, would train with
  // the weights of then and the samples of now.
  Status began_from(std::span<const std::byte> from, const data::Lineage& lineage) const {
    if (from.empty() || StoredLedger::origin_of(from) == lineage.origin) return {};
    return invalid_argument(
        "join the ledger of job '{}' from a saved state: its lineage {} is under way and did not "
        "begin there; give a larger lineage to put the ledger back, or no saved state to go on",
        job_, lineage.number);
  }

  // Commits and announces at once. The same turn whose outcome was unknown is not taken again.
  Status take_turn(Turn turn, uint64_t done, uint64_t next_count) {
    if (unknown_ != Turn::kNone && unknown_ != turn) {
      FFDL_RETURN_IF_ERROR(look());
      note_turns();
    }
    unknown_ = turn;
    FFDL_RETURN_IF_ERROR(write([&](StoredLedger& next) -> Result<Change> {
      const auto rank = next.rank_of(self_);
      if (!rank) return end("it did not renew its lease, or another life has begun");
      if (next.turns(*rank) > turns_) return Change::kNone;
      next.take_turn(*rank, {done, next_count, partitions_for(next_count)});
      // Who waits would wake the others who do.
      return done > 0 || next.under_way(*rank) > 0 ? Change::kPut : Change::kNone;
    }));
    note_turns();
    asked_ = next_count;
    return {};
  }
  // What became of the last turn is known.
  void note_turns() {
    if (const auto rank = ledger_.rank_of(self_)) turns_ = ledger_.turns(*rank);
    unknown_ = Turn::kNone;
  }

  uint64_t partitions_for(uint64_t count) const {
    return wanted_ == 0 ? 0 : std::max(wanted_, rules_.data.partitions_for(count));
  }

  // Puts what `change` makes of the newest ledger in its place.
  template <class Make>
  Status write(Make&& change) {
    for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
      if (must_look_) FFDL_RETURN_IF_ERROR(look());
      StoredLedger next = ledger_;
      for (const Member& dead : dead_) next.leave(dead, /*left_alone=*/false);
      FFDL_ASSIGN_OR_RETURN(const Change made, change(next));
      if (made == Change::kNone) return {};
      ++stats_.attempts;
      const auto put = store_.compare_and_put(ledger_key(), revision_, next.encode());
      // Where others write too, the next one looks first.
      must_look_ = !put.ok() || is_shared_;
      if (put.ok()) {
        note(std::move(next), *put);
        dead_.clear();
        return {};
      }
      if (put.status().code() != StatusCode::kConflict) return put.status();
      ++stats_.conflicts;
    }
    return make_error(StatusCode::kUnavailable,
                      "write the ledger of job '{}': others were faster {} times; commit more "
                      "samples at a time",
                      job_, base::kContentionMax);
  }

  // The newest ledger, and whose keys are gone.
  Status look() {
    ++stats_.looks;
    FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store_.list(prefix_));
    const auto value_of = [&](const std::string& key) {
      const auto at = std::find_if(entries.begin(), entries.end(),
                                   [&](const Entry& entry) { return entry.key == key; });
      return at == entries.end() ? std::optional<std::string>() : at->value;
    };
    for (const Entry& entry : entries) seen_ = std::max(seen_, entry.revision);
    const auto ledger = std::find_if(entries.begin(), entries.end(),
                                     [&](const Entry& entry) { return entry.key == ledger_key(); });
    if (ledger == entries.end()) {
      return revision_ == 0 ? Status() : end("the ledger is gone from the store");
    }
    is_shared_ = ledger->revision != revision_;
    if (is_shared_) {
      FFDL_ASSIGN_OR_RETURN(StoredLedger read, StoredLedger::decode(ledger->value, rules_));
      if (read.lineage().number > lineage_) return end("the job began anew");
      note(std::move(read), ledger->revision);
    }
    dead_.clear();
    for (const Member& member : state().members()) {
      const auto value = value_of(worker_key(member.id));
      // Without a value: a life of that id begins, and will end the one before.
      const bool lives = value && (value->empty() || *value == std::to_string(member.incarnation));
      if (!lives && member != self_) dead_.push_back(member);
    }
    must_look_ = false;
    return {};
  }

  void note(StoredLedger ledger, Revision revision) {
    ledger_ = std::move(ledger);
    revision_ = revision;
    const auto rank = ledger_.rank_of(self_);
    under_way_ = rank ? ledger_.under_way(*rank) : 0;
    leases_ = rank ? state().leases(*rank) : std::vector<SampleRange>();
    const CommittedStep& last = state().last();
    if (!on_stable_ || ledger_.lineage().number != lineage_ || last.parts.empty()) return;
    if (told_ >= last.step) return;
    told_ = last.step;
    CommittedStep told = last;
    told.lineage = lineage_;
    on_stable_(told);
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

  // The ledger as this worker knows it, and what stands there of itself.
  StoredLedger ledger_;
  Revision revision_ = 0;
  std::vector<Member> dead_{};
  std::vector<SampleRange> leases_{};
  uint64_t under_way_ = 0;

  Revision seen_ = 0;
  bool must_look_ = true;
  bool is_shared_ = false;      // others wrote between this worker's last two looks
  uint64_t turns_ = 0;          // of this life, that are known to have taken effect
  Turn unknown_ = Turn::kNone;  // whether it took effect
  uint64_t asked_ = 0;          // how many samples it said it would take
  std::vector<SampleRange> taken_{};
  uint64_t told_ = 0;
  StoreLedgerStats stats_{};
};

Result<std::unique_ptr<StoreLedger>> StoreLedger::join(const StoreLedgerOptions& options,
                                                       Store& store, Runtime& runtime) {
  FFDL_RETURN_IF_ERROR(check(options));
  auto impl = std::make_unique<Impl>(options, store, runtime);
  FFDL_RETURN_IF_ERROR(impl->join(options.from));
  return std::unique_ptr<StoreLedger>(new StoreLedger(std::move(impl)));
}

StoreLedger::StoreLedger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreLedger::~StoreLedger() = default;

Result<std::vector<SampleRange>> StoreLedger::take(uint64_t count) { return impl_->take(count); }
uint64_t StoreLedger::taken() const { return impl_->taken(); }
const std::vector<SampleRange>& StoreLedger::leases() const { return impl_->leases(); }
Status StoreLedger::advance() { return impl_->advance(); }
Status StoreLedger::wait(Time deadline) { return impl_->wait(deadline); }
Status StoreLedger::leave() { return impl_->leave(); }
Result<std::vector<std::byte>> StoreLedger::save() { return impl_->save(); }
uint64_t StoreLedger::samples() const { return impl_->data().samples; }
uint64_t StoreLedger::epoch() const { return impl_->state().epoch(); }
uint64_t StoreLedger::committed() const { return impl_->state().committed(); }
bool StoreLedger::is_done() const { return impl_->state().is_done(); }
Result<std::vector<uint64_t>> StoreLedger::sample_indices(
    std::span<const SampleRange> ranges) const {
  return data::look_up(ranges, impl_->data());
}
void StoreLedger::want(int partitions) { impl_->want(partitions); }
const Member& StoreLedger::self() const { return impl_->self(); }
StoreLedgerStats StoreLedger::stats() const { return impl_->stats(); }

}  // namespace ffdl
