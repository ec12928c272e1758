#include "data/ledger/ledger_state.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

template <class Ranges>
uint64_t samples_in(const Ranges& ranges) {
  return std::accumulate(
      ranges.begin(), ranges.end(), uint64_t{0},
      [](uint64_t sum, const SampleRange& range) { return sum + range.end - range.begin; });
}

// Removes up to `count` samples from the front of a list and passes each range to `to`.
template <class List, class To>
uint64_t move_front(List& from, uint64_t count, To to) {
  uint64_t moved = 0;
  while (moved < count && !from.empty()) {
    SampleRange& first = from.front();
    const uint64_t here = std::min(count - moved, first.end - first.begin);
    to(SampleRange{first.partition, first.begin, first.begin + here});
    moved += here;
    first.begin += here;
    if (first.begin == first.end) from.erase(from.begin());
  }
  return moved;
}

}  // namespace

uint64_t LedgerState::whole_micro_batches(uint64_t samples) const {
  const uint64_t micro_batch = rules_.micro_batch_samples;
  return std::max(std::min(samples, base::kSamplesMax) / micro_batch, uint64_t{1}) * micro_batch;
}

uint64_t LedgerState::held(size_t rank) const { return samples_in(leases_[rank]); }

std::vector<SampleRange> LedgerState::front(size_t rank, uint64_t count) const {
  return front_of(leases_[rank], count);
}

uint64_t LedgerState::committed() const {
  uint64_t rest = samples_in(returned_);
  for (const auto& leases : leases_) rest += samples_in(leases);
  return rules_.data.samples_before(begun_, epoch_) - rest;
}

void LedgerState::change_members(const std::vector<Member>& members, bool others_train) {
  const uint64_t done = committed();
  if (rules_.order == SampleOrder::kGlobal) take_back_all();
  std::vector<std::vector<SampleRange>> leases(members.size());
  std::vector<bool> is_new(members.size(), others_train);
  std::vector<SampleRange> back;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const auto now = std::find(members.begin(), members.end(), members_[rank]);
    if (now != members.end()) {
      const auto place = static_cast<size_t>(now - members.begin());
      leases[place] = std::move(leases_[rank]);
      is_new[place] = is_new_[rank];
    } else {
      back.insert(back.end(), leases_[rank].begin(), leases_[rank].end());
    }
  }
  leases_ = std::move(leases);
  is_new_ = std::move(is_new);
  members_.clear();
  for (const Member& member : members) members_.push_back({member.id, member.incarnation});
  take_back(back);
  FFDL_CHECK(committed() == done, "a change of members commits nothing, and loses nothing");
  if (is_done()) return;
  if (rules_.order == SampleOrder::kGlobal) {
    cut_batch();
  } else {
    hand_out_partitions(std::vector<Claim>(members_.size()));
  }
}

void LedgerState::commit(uint64_t step, std::span<const Claim> claims) {
  FFDL_CHECK(claims.size() == members_.size(), "one claim for each member");
  last_.step = step;
  last_.parts.clear();
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    const uint64_t moved = move_front(
        leases_[rank], claims[rank].samples,
        [&](const SampleRange& range) { last_.parts.push_back({members_[rank], range}); });
    FFDL_CHECK(moved == claims[rank].samples, "no member claims more than it holds");
  }
  is_new_.assign(members_.size(), false);
  if (rules_.order == SampleOrder::kGlobal) take_back_all();
  if (is_done()) return;
  if (begun_ == rules_.data.partitions() && !has_rest()) {
    ++epoch_;
    begun_ = 0;
    if (is_done()) return;
  }
  if (rules_.order == SampleOrder::kGlobal) {
    cut_batch();
  } else {
    hand_out_partitions(claims);
    share_the_rest(claims);
  }
}

bool LedgerState::has_rest() const {
  return !returned_.empty() || std::any_of(leases_.begin(), leases_.end(),
                                           [](const auto& leases) { return !leases.empty(); });
}

void LedgerState::take_back_all() {
  std::vector<SampleRange> back;
  for (auto& leases : leases_) {
    back.insert(back.end(), leases.begin(), leases.end());
    leases.clear();
  }
  take_back(back);
}

// Puts the pieces before what was returned earlier. Joins a piece with the range that continues it.
void LedgerState::take_back(std::vector<SampleRange>& pieces) {
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    FFDL_CHECK(piece->partition < rules_.data.partitions() && piece->begin < piece->end,
               "what is taken back was handed out");
    const bool meets = !returned_.empty() && returned_.front().partition == piece->partition &&
                       returned_.front().begin == piece->end;
    if (meets) {
      returned_.front().begin = piece->begin;
    } else {
      returned_.push_front(*piece);
    }
  }
}

// Makes returned_ nonempty, unless every partition of the epoch has begun.
bool LedgerState::begin_next_partition() {
  if (!returned_.empty()) return true;
  if (begun_ == rules_.data.partitions()) return false;
  returned_.push_back(rules_.data.use(rules_.data.partition_at(begun_, epoch_), epoch_));
  ++begun_;
  return true;
}

// Hands out one partition per rank in rank order, then a second one, so that the last partitions do
// not all go to one member.
void LedgerState::hand_out_partitions(std::span<const Claim> claims) {
  bool anybody_wants = true;
  for (size_t goal = 1; goal <= base::kLeasesMax && anybody_wants; ++goal) {
    anybody_wants = false;
    for (size_t rank = 0; rank < claims.size(); ++rank) {
      if (claims[rank].partitions < goal) continue;
      anybody_wants = true;
      if (leases_[rank].size() >= goal) continue;
      if (!begin_next_partition()) return;
      leases_[rank].push_back(returned_.front());
      returned_.pop_front();
    }
  }
}

// Shares what is left at the end of an epoch. A member without samples receives the last partition
// of the member with the most. If that member has one partition, half of it moves, provided that it
// has more than one step's work. Samples that a member works on do not move. A member that takes no
// samples keeps none.
void LedgerState::share_the_rest(std::span<const Claim> claims) {
  std::vector<uint64_t> free(claims.size());
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    free[rank] = held(rank) - claims[rank].under_way;
  }
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    if (free[rank] > 0 || claims[rank].under_way > 0 || claims[rank].partitions == 0) continue;
    const auto most =
        static_cast<size_t>(std::max_element(free.begin(), free.end()) - free.begin());
    std::vector<SampleRange>& theirs = leases_[most];
    const uint64_t step = std::max(claims[most].samples, claims[most].under_way);
    if (free[most] == 0 || (theirs.size() < 2 && free[most] <= step)) return;
    SampleRange part = theirs.back();
    uint64_t given = std::min(free[most], part.end - part.begin);
    if (theirs.size() == 1 && step > 0) given /= 2;
    part.begin = part.end - given;
    theirs.back().end = part.begin;
    if (theirs.back().begin == part.begin) theirs.pop_back();
    leases_[rank].push_back(part);
    free[rank] = given;
    free[most] -= given;
  }
}

std::vector<uint64_t> LedgerState::shares() const {
  const auto sharers = static_cast<uint64_t>(std::count(is_new_.begin(), is_new_.end(), false));
  const uint64_t micro_batches = batch_ / rules_.micro_batch_samples;
  std::vector<uint64_t> shares(members_.size());
  uint64_t sharer = 0;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (is_new_[rank]) continue;
    shares[rank] = micro_batches / sharers + (sharer++ < micro_batches % sharers ? 1 : 0);
  }
  return shares;
}

void LedgerState::cut_batch() {
  const std::vector<uint64_t> cut = shares();
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    uint64_t missing = cut[rank] * rules_.micro_batch_samples;
    while (missing > 0 && begin_next_partition()) {
      missing -= move_front(returned_, missing,
                            [&](const SampleRange& range) { leases_[rank].push_back(range); });
    }
  }
}

}  // namespace ffdl::data
