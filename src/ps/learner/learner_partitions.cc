#include <algorithm>

#include "base/errors.h"
#include "ps/learner/learner_impl.h"
#include "ps/learner/transfer.h"
#include "ps/segment/last_record.h"
#include "ps/segment/stats.h"

// Tracks which learner works on which partition, and how far it is.
namespace ffdl {

using base::invalid_argument;
using base::make_error;

// Reads the newest record of a slot. Returns no record if it is damaged; every later call that
// returns a Status then fails.
std::optional<ps::LastRecord> Learner::Impl::last_record(int l) const {
  // relaxed: no other memory depends on either word
  std::atomic<uint64_t>& whole = whole_records_[static_cast<size_t>(l)];
  auto record = ps::read_last_record(region_, l, whole.load(std::memory_order_relaxed));
  if (!record.ok()) {
    damaged_slot_.store(l, std::memory_order_relaxed);
    return std::nullopt;
  }
  if (*record) whole.store((*record)->sequence, std::memory_order_relaxed);
  return *std::move(record);
}

Status Learner::Impl::check_records(std::string_view doing) const {
  const int damaged = damaged_slot_.load(std::memory_order_relaxed);
  if (damaged < 0) return {};
  return make_error(StatusCode::kCorrupt,
                    "{}: the last publication of learner {} fails its checksum, or names no owner "
                    "of the slot; something wrote over segment '{}': restore from a checkpoint",
                    doing, damaged, segment_->name());
}

// Returns the end of the samples of a partition that slot l has published and shard 0 has not
// folded. 0: there are none.
uint64_t Learner::Impl::waits_to_be_folded(int l, uint32_t partition) const {
  const uint64_t pub = region_.learner(l).pub.load(std::memory_order_acquire);
  if (region_.folded(0, l).load(std::memory_order_acquire) == pub) return 0;
  // A record that was replaced meanwhile is folded.
  const auto record = last_record(l);
  uint64_t end = 0;
  if (!record) return end;
  for (const SampleRange& range : record->ranges) {
    if (range.partition == partition) end = std::max(end, range.end);
  }
  return end;
}

uint64_t Learner::Impl::committed(uint32_t partition) const {
  if (partition >= config_.partitions) return 0;
  // Reads the published gradients first, then the ledger. A gradient that is folded between the two
  // reads is in the ledger.
  uint64_t end = 0;
  for (int l = 0; l < region_.learners_max(); ++l) {
    end = std::max(end, waits_to_be_folded(l, partition));
  }
  return std::max(end, ps::read_partition(region_, partition).committed);
}

// Shard 0 folds one slot's gradients in order, but different slots' gradients in any order. So a
// learner publishes the next samples of a partition only once the earlier ones are folded, or were
// published by its own slot.
bool Learner::Impl::others_wait_to_be_folded(uint32_t partition) const {
  for (int l = 0; l < region_.learners_max(); ++l) {
    if (l != l_ && waits_to_be_folded(l, partition) > 0) return true;
  }
  return false;
}

uint64_t Learner::Impl::pushed(uint32_t partition) const {
  const auto known = next_position_.find(partition);
  const uint64_t own = known == next_position_.end() ? 0 : known->second;
  return std::max(own, committed(partition));
}

Result<bool> Learner::Impl::hold(uint32_t partition) {
  FFDL_RETURN_IF_ERROR(check_usable("hold a partition"));
  if (partition >= config_.partitions) {
    return invalid_argument("hold partition {}: there are {}, from 0; name one of them", partition,
                            config_.partitions);
  }
  FFDL_ASSIGN_OR_RETURN(const bool is_mine, lock_.add(shm::partition_role(partition)));
  if (!is_mine) return false;
  left_.erase(partition);
  const bool may_have_it = !others_wait_to_be_folded(partition);
  const Status whole = check_records("hold a partition");
  if (may_have_it && whole.ok()) return true;
  lock_.drop(shm::partition_role(partition));
  FFDL_RETURN_IF_ERROR(whole);
  return false;
}

Status Learner::Impl::let_go(uint32_t partition) {
  FFDL_RETURN_IF_ERROR(check_usable("release a partition"));
  wait_for_push_beside();
  left_.insert(partition);
  give_up_left();
  return {};
}

// Releases the partitions that the caller let go, except those with samples that await publication.
// Until then no other learner could see how far this one is.
void Learner::Impl::give_up_left() {
  const size_t given_up = std::erase_if(left_, [&](uint32_t partition) {
    const auto waits = [&](const SampleRange& range) { return range.partition == partition; };
    if (std::any_of(pending_.ranges.begin(), pending_.ranges.end(), waits)) return false;
    lock_.drop(shm::partition_role(partition));
    return true;
  });
  if (given_up > 0) region_.server().progress.ring();
}

bool Learner::Impl::is_free(uint32_t partition) const {
  return !shm::role_is_held(segment_->fd(), shm::partition_role(partition)) &&
         !others_wait_to_be_folded(partition);
}

std::vector<Publication> Learner::Impl::publications() const {
  std::vector<Publication> newest;
  for (int l = 0; l < region_.learners_max(); ++l) {
    if (auto record = last_record(l)) {
      newest.push_back({l, record->sequence, std::move(record->ranges)});
    }
  }
  return newest;
}

void Learner::Impl::tell_publications(std::function<void(const Publication&)> told) {
  wait_for_push_beside();
  told_ = std::move(told);
}

// Returns soon, since a push waits for no other process. A forked copy has no such thread.
void Learner::Impl::wait_for_push_beside() {
  if (transfer_ && lock_.held()) transfer_->wait_for_push();
}

Status Learner::Impl::rest_until(const std::function<bool()>& ready, Time deadline) {
  FFDL_RETURN_IF_ERROR(check_usable("rest"));
  ps::ServerWords& server = region_.server();
  Status failure;
  bool rests = false;
  const auto done = [&] {
    if (server.closing.load(std::memory_order_seq_cst) != 0) failure = server_is_gone("rest");
    if (failure.ok()) failure = check_launcher();
    if (failure.ok() && !pending_.empty()) failure = publish_if_free().status();
    if (!failure.ok()) return true;
    if (!rests && pending_.empty() && other_buffer_is_free() &&
        config_.synchrony != Synchrony::kAsync) {
      leave_bounds();
      rests = true;
    }
    return ready();
  };
  const bool in_time = server.progress.wait_until(done, deadline);
  if (rests) enter_bounds();
  if (!failure.ok() || in_time) return failure;
  return make_error(StatusCode::kTimeout,
                    "rest: the condition of learner {} did not become true; wait longer", l_);
}

}  // namespace ffdl
