#include "store/service.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "store/state_file.h"

namespace ffdl::store {
namespace {

// The clock of a State stands: the server ends leases, and says so in its log.
constexpr Time kStanding = Time::min();

// Revisions that are left out when the machine has died: more than it can have forgotten.
constexpr uint64_t kRevisionsSkipped = uint64_t{1} << 32;

wire::Reply reply_of(const Result<uint64_t>& number) {
  if (!number.ok()) return reply_with(number.status());
  wire::Reply reply;
  reply.set_number(*number);
  return reply;
}

void add_entry(wire::Reply& reply, const Entry& entry) {
  wire::Entry& out = *reply.add_entries();
  out.set_key(entry.key);
  out.set_value(entry.value);
  out.set_revision(entry.revision);
  out.set_lease(entry.lease);
}

}  // namespace

wire::Reply reply_with(const Status& status) {
  wire::Reply reply;
  reply.set_code(static_cast<uint32_t>(status.code()));
  reply.set_message(std::string(status.message()));
  return reply;
}

Result<wire::Reply> Service::apply(const wire::Record& record, Time now) {
  ++records_;
  switch (record.record_case()) {
    case wire::Record::kCreated:
      created_ = record.created();
      return wire::Reply();
    case wire::Record::kServing:
      begin_serving(record.serving());
      return wire::Reply();
    case wire::Record::kJoined:
      hear(record.joined());
      return wire::Reply();
    case wire::Record::kCalled:
      return call(record.called(), now);
    case wire::Record::kLeaseOver:
      end(record.lease_over());
      return wire::Reply();
    case wire::Record::kSnapshot:
      FFDL_RETURN_IF_ERROR(restore(record.snapshot(), now));
      return wire::Reply();
    case wire::Record::RECORD_NOT_SET:
      break;
  }
  return base::make_error(StatusCode::kCorrupt,
                          "read a store's log: a record of another kind; was it written by a newer "
                          "version of ffdl");
}

void Service::begin_serving(const wire::Serving& serving) {
  // A machine that died may have lost the end of the log, and others may remember what was in it.
  if (!serving_.boot().empty() && serving_.boot() != serving.boot()) {
    state_.skip_revisions(kRevisionsSkipped);
  }
  serving_ = serving;
}

// Whoever was heard of longest ago is forgotten when there are too many.
void Service::hear(uint64_t client) {
  clients_[client].heard = records_;
  if (clients_.size() <= base::kStoreClientsMax) return;
  clients_.erase(std::min_element(
      clients_.begin(), clients_.end(),
      [](const auto& a, const auto& b) { return a.second.heard < b.second.heard; }));
}

void Service::end(LeaseId lease) {
  leases_.erase(lease);
  state_.end_lease(lease, kStanding);
}

wire::Reply Service::call(const wire::Called& called, Time now) {
  const wire::Request& request = called.request();
  hear(called.client());
  auto& answers = clients_[called.client()].answers;
  answers.erase(answers.begin(), answers.lower_bound(request.answered_below()));
  wire::Reply reply;
  switch (request.call_case()) {
    case wire::Request::kPut: {
      const wire::Put& put = request.put();
      reply =
          reply_of(put.has_expected() ? state_.compare_and_put(put.key(), put.expected(),
                                                               put.value(), put.lease(), kStanding)
                                      : state_.put(put.key(), put.value(), put.lease(), kStanding));
      break;
    }
    case wire::Request::kRemove:
      state_.remove(request.remove().key(), kStanding);
      break;
    case wire::Request::kGrantLease: {
      const wire::GrantLease& grant = request.grant_lease();
      const Duration ttl(grant.ttl_ns());
      const auto lease = state_.grant_lease(ttl, kStanding);
      if (lease.ok()) {
        leases_[*lease] = {called.client(), grant.outlives_connection(), ttl, now + ttl};
      }
      reply = reply_of(lease);
      break;
    }
    case wire::Request::kEndLease:
      end(request.end_lease().lease());
      break;
    default:
      return reply_with(
          base::invalid_argument("call a store: there is no such call; is the client "
                                 "of another version"));
  }
  // What failed did nothing, and may be tried anew.
  if (reply.code() == 0) answers[request.sequence()] = reply.number();
  reply.set_sequence(request.sequence());
  return reply;
}

bool Service::changes_the_store(const wire::Request& request) {
  switch (request.call_case()) {
    case wire::Request::kPut:
    case wire::Request::kRemove:
    case wire::Request::kGrantLease:
    case wire::Request::kEndLease:
      return true;
    default:
      return false;
  }
}

wire::Reply Service::look(const wire::Request& request, Time now) {
  wire::Reply reply;
  if (request.has_get()) {
    const auto entry = state_.get(request.get().key(), kStanding);
    if (entry.ok()) {
      add_entry(reply, *entry);
    } else {
      reply = reply_with(entry.status());
    }
  } else if (request.has_list()) {
    for (const Entry& entry : state_.list(request.list().prefix(), kStanding)) {
      add_entry(reply, entry);
    }
  } else if (request.has_keep_alive()) {
    const LeaseId lease = request.keep_alive().lease();
    const Status kept = state_.keep_alive(lease, kStanding);
    if (!kept.ok()) reply = reply_with(kept);
    if (kept.ok()) leases_[lease].ends = now + leases_[lease].ttl;
  } else {
    reply =
        reply_with(base::invalid_argument("call a store: there is no such call; is the client "
                                          "of another version"));
  }
  reply.set_sequence(request.sequence());
  return reply;
}

std::optional<wire::Reply> Service::failure_of(const wire::Request& request) const {
  if (!request.has_put()) return std::nullopt;
  const wire::Put& put = request.put();
  const auto expected = put.has_expected() ? std::optional(put.expected()) : std::nullopt;
  const Status status = state_.may_put(put.key(), expected, put.value(), put.lease());
  if (status.ok()) return std::nullopt;
  return reply_with(status);
}

std::optional<wire::Reply> Service::answered(uint64_t client, const wire::Request& request) const {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return std::nullopt;
  const auto answer = known->second.answers.find(request.sequence());
  if (answer == known->second.answers.end()) return std::nullopt;
  wire::Reply reply;
  reply.set_sequence(request.sequence());
  reply.set_number(answer->second);
  return reply;
}

bool Service::has_changed(std::string_view prefix, Revision after) {
  return state_.has_changed(prefix, after, kStanding);
}

std::vector<LeaseId> Service::leases_over(Time now) const {
  std::vector<LeaseId> over;
  for (const auto& [id, lease] : leases_) {
    if (lease.ends <= now) over.push_back(id);
  }
  return over;
}

Time Service::next_end() const {
  Time next = kNoDeadline;
  for (const auto& [id, lease] : leases_) next = std::min(next, lease.ends);
  return next;
}

std::vector<LeaseId> Service::leases_of(uint64_t client) const {
  std::vector<LeaseId> found;
  for (const auto& [id, lease] : leases_) {
    if (lease.client == client && !lease.outlives_connection) found.push_back(id);
  }
  return found;
}

void Service::extend_leases(Time now) {
  for (auto& [id, lease] : leases_) lease.ends = now + lease.ttl;
}

void Service::prolong_leases(Duration by) {
  for (auto& [id, lease] : leases_) lease.ends += by;
}

wire::Record Service::snapshot() const {
  wire::Record record;
  wire::Snapshot& out = *record.mutable_snapshot();
  *out.mutable_created() = created_;
  *out.mutable_serving() = serving_;
  out.set_state(StateFile::write(state_, ""));
  for (const auto& [id, lease] : leases_) {
    wire::Snapshot::Lease& one = *out.add_leases();
    one.set_id(id);
    one.set_client(lease.client);
    one.set_outlives_connection(lease.outlives_connection);
    one.set_ttl_ns(lease.ttl.count());
  }
  std::vector<std::pair<uint64_t, uint64_t>> order;  // when a client was heard of, and who
  for (const auto& [id, client] : clients_) order.emplace_back(client.heard, id);
  std::sort(order.begin(), order.end());
  for (const auto& [heard, id] : order) {
    wire::Snapshot::Client& one = *out.add_clients();
    one.set_id(id);
    for (const auto& [sequence, number] : clients_.at(id).answers) {
      wire::Snapshot::Answer& answer = *one.add_answers();
      answer.set_sequence(sequence);
      answer.set_number(number);
    }
  }
  return record;
}

Status Service::restore(const wire::Snapshot& snapshot, Time now) {
  FFDL_ASSIGN_OR_RETURN(state_, StateFile::read(snapshot.state(), "", kStanding));
  created_ = snapshot.created();
  serving_ = snapshot.serving();
  leases_.clear();
  for (const wire::Snapshot::Lease& lease : snapshot.leases()) {
    const Duration ttl(lease.ttl_ns());
    if (ttl <= Duration::zero() || ttl > base::kLeaseMax) {
      return base::make_error(StatusCode::kCorrupt,
                              "read a store's log: lease {} has a term of {} ns; restore the file",
                              lease.id(), ttl.count());
    }
    leases_[lease.id()] = {lease.client(), lease.outlives_connection(), ttl, now + ttl};
  }
  clients_.clear();
  for (const wire::Snapshot::Client& client : snapshot.clients()) {
    Client& one = clients_[client.id()];
    one.heard = ++records_;
    for (const auto& answer : client.answers()) one.answers[answer.sequence()] = answer.number();
  }
  return {};
}

}  // namespace ffdl::store
