#include <algorithm>
#include <map>

#include "base/errors.h"
#include "ffdl/membership.h"
#include "membership/keys.h"
#include "membership/membership_records.h"

namespace ffdl {
namespace {

using membership::Keys;

void take_candidate(std::string_view id, const Entry& entry,
                    std::map<std::string, MemberStatus>& others, JobStatus& status) {
  const auto candidate = membership::parse_candidate(entry.value);
  if (!candidate.ok()) return;
  const Member member = {std::string(id), candidate->incarnation, candidate->address};
  const auto place = std::find_if(status.members.begin(), status.members.end(),
                                  [&](const MemberStatus& one) { return one.member == member; });
  MemberStatus& seen = place == status.members.end() ? others[member.id] : *place;
  seen.member = member;
  seen.is_alive = true;
  seen.is_leaving = candidate->leaving;
}

Status take_world(const Entry& entry, JobStatus& status) {
  FFDL_ASSIGN_OR_RETURN(const auto record, membership::parse_world(entry.value));
  status.world = {record.generation, -1,           record.members,
                  record.lineage,    record.phase, record.state_holders,
                  record.gives_up()};
  status.active_generation = record.active_generation;
  status.term = record.term;
  status.checkpoint = record.checkpoint;
  if (record.active_lineage == record.lineage) {
    status.lineage_base = record.lineage_base;
    status.lineage_holder = record.lineage_holder;
  }
  status.completion = record.completion;
  for (const Member& member : record.members) {
    status.members.push_back({member, static_cast<int>(status.members.size())});
  }
  return {};
}

}  // namespace

Result<JobStatus> read_job(Store& store, std::string_view job) {
  const Keys keys(job);
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store.list(keys.prefix()));
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> progress, store.list(keys.all_progress()));
  JobStatus status;
  status.world.rank = -1;
  for (const Entry& entry : entries) {
    if (entry.key == keys.world()) FFDL_RETURN_IF_ERROR(take_world(entry, status));
    if (entry.key != keys.leader()) continue;
    auto leader = membership::parse_leader(entry.value);
    if (leader.ok()) status.leader = *std::move(leader);
  }
  std::map<std::string, MemberStatus> others;
  for (const Entry& entry : entries) {
    if (!entry.key.starts_with(keys.candidates())) continue;
    take_candidate(std::string_view(entry.key).substr(keys.candidates().size()), entry, others,
                   status);
  }
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> servers, store.list(keys.ended_servers()));
  for (const Entry& server : servers) {
    FFDL_ASSIGN_OR_RETURN(status.ended_servers[server.key.substr(keys.ended_servers().size())],
                          membership::parse_number(server.value));
  }
  for (auto& [id, other] : others) status.members.push_back(std::move(other));
  for (MemberStatus& one : status.members) {
    const auto entry = std::find_if(progress.begin(), progress.end(), [&](const Entry& candidate) {
      return candidate.key == keys.progress(one.member.id);
    });
    if (entry == progress.end()) continue;
    const auto read = membership::parse_progress(entry->value);
    if (!read.ok() || read->incarnation != one.member.incarnation) continue;
    one.generation = read->generation;
    one.step = read->step;
  }
  return status;
}

Status record_server_end(Store& store, std::string_view job, std::string_view name,
                         uint64_t version) {
  if (!membership::is_name(name)) {
    return base::invalid_argument(
        "record the end of parameter server '{}' of job '{}': it is not a valid name; use letters, "
        "digits and signs except '/'",
        name, job);
  }
  return store.put(Keys(job).ended_server(name), std::to_string(version), kNoLease).status();
}

Result<uint64_t> last_incarnation(Store& store, std::string_view job, std::string_view id) {
  const auto entry = store.get(Keys(job).incarnation(id));
  if (entry.status().code() == StatusCode::kNotFound) return uint64_t{0};
  if (!entry.ok()) return entry.status();
  return membership::parse_number(entry->value);
}

}  // namespace ffdl
