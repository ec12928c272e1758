#include "ffdl/membership.h"

#include "base/errors.h"
#include "base/limits.h"
#include "membership/keys.h"
#include "membership/membership_impl.h"
#include "membership/membership_records.h"
#include "membership/options.h"

namespace ffdl {

Membership::Membership(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Membership::~Membership() = default;

Result<std::unique_ptr<Membership>> Membership::join(Store& store, Runtime& runtime, Member self,
                                                     const MembershipOptions& options) {
  FFDL_RETURN_IF_ERROR(membership::check_options(options));
  if (!membership::is_name(self.id)) {
    return base::invalid_argument(
        "join job '{}' as '{}': it is not a valid id; use 1 to {} letters, digits and signs except "
        "'/'",
        options.job, self.id, base::kMemberIdMax);
  }
  if (!options.takes_over_from.empty() &&
      (!membership::is_name(options.takes_over_from) || options.takes_over_from == self.id)) {
    return base::invalid_argument(
        "join job '{}' as '{}': takes_over_from is '{}'; name another member, or none", options.job,
        self.id, options.takes_over_from);
  }
  auto impl = std::make_unique<Impl>(store, runtime, std::move(self), options);
  FFDL_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<Membership>(new Membership(std::move(impl)));
}

const Member& Membership::self() const { return impl_->self(); }
World Membership::world() const { return impl_->world(); }
bool Membership::is_leader() const { return impl_->is_leader(); }
bool Membership::is_candidate(const Member& member) const { return impl_->is_candidate(member); }
bool Membership::has_gone_on(const Member& member, uint64_t generation) const {
  return impl_->has_gone_on(member, generation);
}
Status Membership::life_status() const { return impl_->life_status(); }
bool Membership::is_fenced() const { return impl_->is_fenced(); }
Time Membership::awake_time() const { return impl_->awake_time(); }

Result<std::unique_ptr<Membership>> Membership::rejoin(const std::optional<StateLabel>& state,
                                                       const std::function<bool()>& is_wanted) {
  FFDL_ASSIGN_OR_RETURN(auto next, impl_->rejoin(state, is_wanted));
  return std::unique_ptr<Membership>(new Membership(std::move(next)));
}

Result<World> Membership::wait_world_after(uint64_t generation, Time deadline) {
  return impl_->wait_world_after(generation, deadline);
}

Status Membership::activate(uint64_t generation, Time deadline, const StateLabel& base,
                            std::string_view holder) {
  return impl_->activate(generation, deadline, base, holder);
}

Status Membership::wait_active(uint64_t generation, Time deadline) {
  return impl_->wait_active(generation, deadline);
}

void Membership::report_progress(uint64_t generation, uint64_t step) {
  impl_->report_progress(generation, step);
}

void Membership::report_state(const std::optional<StateLabel>& state) {
  impl_->report_state(state);
}

void Membership::report_failure(uint64_t generation, const std::vector<Member>& unreached) {
  impl_->report_failure(generation, unreached);
}

void Membership::report_connected(const World& world) { impl_->report_connected(world); }

std::optional<CheckpointPointer> Membership::checkpoint() const { return impl_->checkpoint(); }

std::optional<CheckpointPointer> Membership::restart_base() const { return impl_->restart_base(); }

Result<std::optional<StateLabel>> Membership::label_at_beginning(
    const World& world, const std::optional<StateLabel>& state) const {
  return impl_->label_at_beginning(world, state);
}

uint64_t Membership::continued_lineage(const StateLabel& base) const {
  return impl_->continued_lineage(base);
}

Status Membership::publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline) {
  return impl_->publish_checkpoint(checkpoint, deadline);
}

Status Membership::complete(const StateLabel& end, Time deadline) {
  return impl_->complete(end, deadline);
}

std::optional<StateLabel> Membership::completion() const { return impl_->completion(); }
bool Membership::is_state_held() const { return impl_->is_state_held(); }
void Membership::ask_to_leave() { impl_->ask_to_leave(); }
bool Membership::may_leave() const { return impl_->may_leave(); }
Status Membership::leave(Time deadline) { return impl_->leave(deadline); }
bool Membership::has_ended_by_leaving() const { return impl_->has_ended_by_leaving(); }

Status report_death(Store& store, std::string_view job, const Member& member) {
  const membership::Keys keys(job);
  const std::string key = keys.death(member.id);
  for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
    const auto entry = store.get(key);
    if (!entry.ok() && entry.status().code() != StatusCode::kNotFound) return entry.status();
    if (entry.ok()) {
      const auto known = membership::parse_number(entry->value);
      if (known.ok() && *known >= member.incarnation) return {};
    }
    const auto put = store.compare_and_put(key, entry.ok() ? entry->revision : 0,
                                           std::to_string(member.incarnation));
    if (put.ok()) return {};
    if (put.status().code() != StatusCode::kConflict) return put.status();
  }
  return base::make_error(
      StatusCode::kUnavailable,
      "report the death of '{}': other processes changed the same key; try again", member.id);
}

// Starts a completed job over as a leader would, without state holders and without a checkpoint.
Status begin_again(Store& store, std::string_view job) {
  const membership::Keys keys(job);
  FFDL_ASSIGN_OR_RETURN(const auto servers, store.list(keys.ended_servers()));
  for (const Entry& server : servers) FFDL_RETURN_IF_ERROR(store.remove(server.key));
  const std::string key = keys.world();
  for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
    const auto entry = store.get(key);
    if (entry.status().code() == StatusCode::kNotFound) return {};
    if (!entry.ok()) return entry.status();
    FFDL_ASSIGN_OR_RETURN(membership::WorldRecord next, membership::parse_world(entry->value));
    if (!next.completion) return {};
    ++next.generation;
    ++next.lineage;
    next.oldest_lineage = next.lineage;
    next.phase = Phase::kForming;
    next.protocol = membership::kProtocolVersion;  // not of the members that ended
    next.state_holders.clear();
    next.completion.reset();
    next.checkpoint.reset();
    next.restart_base.reset();
    const auto put = store.compare_and_put(key, entry->revision, encode(next));
    if (put.ok()) return {};
    if (put.status().code() != StatusCode::kConflict) return put.status();
  }
  return base::make_error(StatusCode::kUnavailable,
                          "begin job '{}' again: other processes changed its record; try again",
                          job);
}

}  // namespace ffdl
