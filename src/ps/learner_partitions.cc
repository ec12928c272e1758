#include <algorithm>

#include "base/errors.h"
#include "ps/last_record.h"
#include "ps/learner_impl.h"
#include "ps/stats.h"
#include "ps/transfer.h"

// Who works on which partition, and how far it is.
namespace ffdl {

using base::invalid_argument;
using base::make_error;

// Where those samples of a partition end that slot l has published and shard 0 has not folded; 0:
// there are none.
uint64_t Learner::Impl::waits_to_be_folded(int l, uint32_t partition) const {
  const uint64_t pub = region_.learner(l).pub.load(std::memory_order_acquire);
  if (region_.folded(0, l).load(std::memory_order_acquire) == pub) return 0;
  // One that was replaced meanwhile is folded.
  const auto record = ps::read_last_record(region_, l);
  uint64_t end = 0;
  if (!record) return end;
  for (const SampleRange& range : record->ranges) {
    if (range.partition == partition) end = std::max(end, range.end);
  }
  return end;
}

uint64_t Learner::Impl::committed(uint32_t partition) const {
  if (partition >= config_.partitions) return 0;
  // Published gradients that are not in the ledger yet, then the ledger: what is folded between the
  // two looks is in the second.
  uint64_t end = 0;
  for (int l = 0; l < region_.learners_max(); ++l) {
    end = std::max(end, waits_to_be_folded(l, partition));
  }
  return std::max(end, ps::read_partition(region_, partition).committed);
}

// Shard 0 folds one slot's gradients in order, those of several slots in any: what follows in a
// partition is published when what comes before it is folded, or by the same slot.
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
    return invalid_argument("hold partition {}: there are {}", partition, config_.partitions);
  }
  FFDL_ASSIGN_OR_RETURN(const bool is_mine, lock_.add(shm::partition_role(partition)));
  if (!is_mine) return false;
  left_.erase(partition);
  if (!others_wait_to_be_folded(partition)) return true;
  lock_.drop(shm::partition_role(partition));
  return false;
}

Status Learner::Impl::let_go(uint32_t partition) {
  FFDL_RETURN_IF_ERROR(check_usable("let go of a partition"));
  wait_for_push_beside();
  left_.insert(partition);
  give_up_left();
  return {};
}

// Of what was let go, all but those of which something waits to be published: until then nobody
// else could see how far this learner has come.
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
    if (auto record = ps::read_last_record(region_, l)) {
      newest.push_back({l, record->sequence, std::move(record->ranges)});
    }
  }
  return newest;
}

void Learner::Impl::tell_publications(std::function<void(const Publication&)> told) {
  wait_for_push_beside();
  told_ = std::move(told);
}

// A push waits for nobody, so this is short. A forked copy has no such thread.
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
                    "rest: what learner {} waits for did not happen; wait longer", l_);
}

}  // namespace ffdl
