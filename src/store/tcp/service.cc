#include "store/tcp/service.h"

#include <algorithm>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "store/local/state_file.h"

namespace ffdl::store {
namespace {

// The fixed clock of the State: the server ends leases, and logs that.
constexpr Time kStanding = Time::min();

// Revisions that are skipped after the machine has died: more than it can have forgotten.
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
  // A machine that died may have lost the end of the log, which others may remember.
  if (!serving_.boot().empty() && serving_.boot() != serving.boot()) {
    state_.skip_revisions(kRevisionsSkipped);
  }
  serving_ = serving;
}

// Forgets the client that was heard of longest ago if there are too many.
Service::Client& Service::hear(uint64_t client) {
  Client& one = clients_[client];
  by_heard_.erase(one.heard);
  one.heard = records_;
  by_heard_[records_] = client;
  FFDL_CHECK(by_heard_.size() == clients_.size(), "each client has one entry");
  if (clients_.size() > base::kStoreClientsMax) forget_oldest();
  return one;
}

void Service::forget_oldest() {
  const auto oldest = by_heard_.begin();
  const auto client = clients_.find(oldest->second);
  answers_ -= client->second.answers.size();
  clients_.erase(client);
  by_heard_.erase(oldest);
}

// Keeps only the newest answers of a client that never confirms them.
void Service::remember(Client& client, uint64_t sequence, uint64_t number) {
  answers_ += client.answers.insert_or_assign(sequence, number).second ? 1 : 0;
  if (client.answers.size() > base::kStoreCallsMax) {
    client.answers.erase(client.answers.begin());
    --answers_;
  }
  while (answers_ > base::kStoreAnswersMax) forget_oldest();
}

void Service::end(LeaseId lease) {
  leases_.erase(lease);
  state_.end_lease(lease, kStanding);
}

wire::Reply Service::call(const wire::Called& called, Time now) {
  const wire::Request& request = called.request();
  Client& client = hear(called.client());
  answers_ -= client.answers.size();
  client.answers.erase(client.answers.begin(),
                       client.answers.lower_bound(request.answered_below()));
  answers_ += client.answers.size();
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
  // A failed call did nothing, and may be tried again.
  if (reply.code() == 0) remember(client, request.sequence(), reply.number());
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
  for (const auto& [heard, id] : by_heard_) {
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
  by_heard_.clear();
  answers_ = 0;
  for (const wire::Snapshot::Client& client : snapshot.clients()) {
    ++records_;
    Client& one = hear(client.id());
    for (const auto& answer : client.answers()) remember(one, answer.sequence(), answer.number());
  }
  return {};
}

}  // namespace ffdl::store
