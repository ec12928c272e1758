#include "data/ledger/store_ledger_state.h"

#include <algorithm>
#include <utility>

#include "base/byte_records.h"
#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

constexpr std::string_view kStoredMagic = "ffdlsto2";

Status is_no_ledger(std::string_view what) {
  return base::make_error(StatusCode::kCorrupt,
                          "read the ledger of a store: {}; use a job name that nothing else uses",
                          what);
}

}  // namespace

std::optional<size_t> StoreLedgerState::rank_of(const Member& member) const {
  const auto& members = state_.members();
  const auto found = std::find(members.begin(), members.end(), member);
  if (found == members.end()) return {};
  return static_cast<size_t>(found - members.begin());
}

std::optional<Member> StoreLedgerState::join(const std::string& id) {
  for (const Member& member : state_.members()) {
    if (member.id != id) continue;
    leave(Member(member), /*left_alone=*/false);
    break;
  }
  std::vector<Member> members = state_.members();
  if (members.size() == base::kRanksMax) return {};
  members.push_back({id, ++lives_});
  keep(members);
  return members.back();
}

void StoreLedgerState::leave(const Member& member, bool left_alone) {
  const auto rank = rank_of(member);
  if (!rank) return;
  if (!left_alone) repeated_ += workers_[*rank].under_way;
  std::vector<Member> members = state_.members();
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(*rank));
  keep(members);
}

// Keeps the records of workers that stay, as the state keeps their leases.
void StoreLedgerState::keep(const std::vector<Member>& members) {
  std::vector<Worker> workers(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (const auto rank = rank_of(members[i])) workers[i] = workers_[*rank];
  }
  state_.change_members(members);
  workers_ = std::move(workers);
}

void StoreLedgerState::take_turn(size_t rank, const LedgerTurn& turn) {
  FFDL_CHECK(turn.done <= workers_[rank].under_way, "a worker commits what it announced");
  std::vector<Claim> claims(workers_.size(), Claim{0, 0, 0});
  for (size_t i = 0; i < claims.size(); ++i) claims[i].under_way = workers_[i].under_way;
  claims[rank] = {turn.done, turn.partitions, 0};
  state_.commit(state_.last().step + (turn.done > 0 ? 1 : 0), claims);
  workers_[rank].under_way = std::min(turn.next, state_.held(rank));
  ++workers_[rank].turns;
}

void StoreLedgerState::begin_lineage(const Lineage& lineage, const StoreLedgerState* before) {
  keep({});
  lineage_ = lineage;
  if (before != nullptr) lives_ = std::max(lives_, before->lives_);
}

uint64_t StoreLedgerState::origin_of(std::span<const std::byte> saved) {
  return saved.empty() ? 0 : XXH3_64bits(saved.data(), saved.size());
}

std::string StoreLedgerState::encode() const {
  base::ByteWriter out(kStoredMagic);
  const auto state = state_.encode();
  out.text({reinterpret_cast<const char*>(state.data()), state.size()});
  out.number(lineage_.number);
  out.number(lineage_.origin);
  out.number(lives_);
  out.number(repeated_);
  for (const Worker& worker : workers_) {
    out.number(worker.under_way);
    out.number(worker.turns);
  }
  return std::move(out).finish();
}

Result<StoreLedgerState> StoreLedgerState::decode(std::string_view bytes,
                                                  const LedgerRules& rules) {
  base::ByteReader in(bytes, kStoredMagic);
  const std::string state = in.text();
  StoreLedgerState ledger(rules);
  ledger.lineage_.number = in.number();
  ledger.lineage_.origin = in.number();
  ledger.lives_ = in.number();
  ledger.repeated_ = in.number();
  if (in.failed()) return is_no_ledger(in.problem());
  FFDL_ASSIGN_OR_RETURN(ledger.state_, LedgerState::decode(std::as_bytes(std::span(state)), rules));
  for (size_t rank = 0; rank < ledger.state_.members().size(); ++rank) {
    Worker worker;
    worker.under_way = in.number();
    worker.turns = in.number();
    if (worker.under_way > ledger.state_.held(rank)) {
      return is_no_ledger("a worker has announced more samples than it has leased");
    }
    ledger.workers_.push_back(worker);
  }
  if (!in.problem().empty()) return is_no_ledger(in.problem());
  return ledger;
}

}  // namespace ffdl::data
