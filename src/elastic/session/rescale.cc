#include "elastic/session/rescale.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

namespace ffdl::elastic {

namespace {

using base::kProtocolVersion;
using Label = std::pair<uint64_t, uint64_t>;

class Plan {
 public:
  Plan(std::span<const Report> reports, const World& world) : reports_(reports), world_(world) {}

  Result<RescalePlan> make() {
    FFDL_CHECK(reports_.size() == world_.members.size(), "each member reports, and nobody else");
    // Membership has refused members of another version before: their reports may differ in size.
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      if (reports_[rank].format == kProtocolVersion) continue;
      return base::invalid_argument(
          "begin generation {}: '{}' uses version {} of the session's protocol, this member {}; "
          "use one version of ffdl at all members",
          world_.generation, name(rank), reports_[rank].format, kProtocolVersion);
    }
    FFDL_ASSIGN_OR_RETURN(const size_t base, find_base());
    RescalePlan plan;
    plan.step = reports_[base].step;
    plan.history = begins_anew() ? reports_[base].hash : reports_[base].history;
    std::vector<int> sources;
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      FFDL_ASSIGN_OR_RETURN(const bool has, has_base(rank, base));
      plan.from.push_back(has ? RescalePlan::kOwn : 0);
      if (has) sources.push_back(static_cast<int>(rank));
      if (reports_[rank].model != reports_[base].model) {
        plan.refused.push_back(static_cast<int>(rank));
      }
    }
    FFDL_CHECK(!sources.empty(), "the state that all go on from is somebody's");
    size_t next = 0;
    for (int& from : plan.from) {
      if (from != RescalePlan::kOwn) from = sources[next++ % sources.size()];
    }
    return plan;
  }

 private:
  bool begins_anew() const { return world_.begins_anew(); }
  bool counts(size_t rank) const {
    return reports_[rank].holds != 0 && reports_[rank].lineage == world_.lineage;
  }
  Label label(size_t rank) const { return {reports_[rank].generation, reports_[rank].step}; }
  const std::string& name(size_t rank) const { return world_.members[rank].id; }

  Result<size_t> find_base() const {
    if (begins_anew()) return size_t{0};
    size_t base = reports_.size();
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      if (!counts(rank)) continue;
      if (base == reports_.size() || label(rank) > label(base)) base = rank;
    }
    if (base < reports_.size()) return base;
    return base::make_error(
        StatusCode::kInternal,
        "begin generation {}: none of its {} members holds the state of lineage "
        "{}, though one of them must",
        world_.generation, reports_.size(), world_.lineage);
  }

  Result<bool> has_base(size_t rank, size_t base) const {
    const Report& mine = reports_[rank];
    const Report& its = reports_[base];
    if (begins_anew()) return rank == base || (mine.model == its.model && mine.hash == its.hash);
    if (!counts(rank) || label(rank) != label(base)) return false;
    const bool hashes_differ = mine.hash != 0 && its.hash != 0 && mine.hash != its.hash;
    if (mine.history == its.history && !hashes_differ) return true;
    return base::make_error(
        StatusCode::kInternal,
        "begin generation {}: '{}' and '{}' are both at step {} of generation {}, with unequal {}; "
        "apply() must give the same bits at all members",
        world_.generation, name(base), name(rank), mine.step, mine.generation,
        hashes_differ ? "states" : "histories");
  }

  const std::span<const Report> reports_;
  const World& world_;
};

}  // namespace

Result<RescalePlan> plan_rescale(std::span<const Report> reports, const World& world) {
  return Plan(reports, world).make();
}

}  // namespace ffdl::elastic
