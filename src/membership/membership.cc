#include "ffdl/membership.h"

#include "base/errors.h"
#include "base/limits.h"
#include "membership/keys.h"
#include "membership/membership_impl.h"
#include "membership/options.h"
#include "membership/records.h"

namespace ffdl {

Membership::Membership(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Membership::~Membership() = default;

Result<std::unique_ptr<Membership>> Membership::join(Store& store, Runtime& runtime, Member self,
                                                     const MembershipOptions& options) {
  FFDL_RETURN_IF_ERROR(membership::check_options(options));
  if (!membership::is_name(self.id)) {
    return base::invalid_argument(
        "join job '{}' as '{}': it is no id; use 1 to {} letters, digits and signs but '/'",
        options.job, self.id, base::kMemberIdMax);
  }
  if (!options.takes_over_from.empty() &&
      (!membership::is_name(options.takes_over_from) || options.takes_over_from == self.id)) {
    return base::invalid_argument(
        "join job '{}' as '{}': takes_over_from is '{}'; name another member, or nobody",
        options.job, self.id, options.takes_over_from);
  }
  auto impl = std::make_unique<Impl>(store, runtime, std::move(self), options);
  FFDL_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<Membership>(new Membership(std::move(impl)));
}

const Member& Membership::self() const { return impl_->self(); }
World Membership::world() const { return impl_->world(); }
bool Membership::is_leader() const { return impl_->is_leader(); }
bool Membership::is_candidate(const Member& member) const { return impl_->is_candidate(member); }
Status Membership::standing() const { return impl_->standing(); }

Result<World> Membership::wait_world_after(uint64_t generation, Time deadline) {
  return impl_->wait_world_after(generation, deadline);
}

Status Membership::activate(uint64_t generation, Time deadline) {
  return impl_->activate(generation, deadline);
}

Status Membership::wait_active(uint64_t generation, Time deadline) {
  return impl_->wait_active(generation, deadline);
}

void Membership::report_progress(uint64_t generation, uint64_t step) {
  impl_->report_progress(generation, step);
}

void Membership::report_failure(uint64_t generation) { impl_->report_failure(generation); }

std::optional<CheckpointPointer> Membership::checkpoint() const { return impl_->checkpoint(); }

std::optional<CheckpointPointer> Membership::restart_base() const { return impl_->restart_base(); }

Status Membership::publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline) {
  return impl_->publish_checkpoint(checkpoint, deadline);
}

void Membership::ask_to_leave() { impl_->ask_to_leave(); }
bool Membership::may_leave() const { return impl_->may_leave(); }
Status Membership::leave(Time deadline) { return impl_->leave(deadline); }

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
  return base::make_error(StatusCode::kUnavailable,
                          "report the death of '{}': others write the same key; try again",
                          member.id);
}

}  // namespace ffdl
