#include "elastic/session/rescale.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

namespace ffdl::elastic {

namespace {

using base::kProtocolVersion;

class Plan {
 public:
  // The states that may be the base.
  enum class Base {
    kOfLineage,   // states of the world's lineage
    kFromMemory,  // complete states of any lineage that counts
    kOfRank0,     // the state that rank 0 has made or loaded
  };

  Plan(std::span<const Report> reports, const World& world, Base base)
      : reports_(reports), world_(world), base_(base) {}

  // Checks that all members speak this protocol. Membership has refused members of another version
  // before: their reports may differ in size.
  Status check_versions() const {
    FFDL_CHECK(reports_.size() == world_.members.size(), "each member reports, and nobody else");
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      if (reports_[rank].format == kProtocolVersion) continue;
      return base::invalid_argument(
          "begin generation {}: '{}' uses version {} of the session's protocol, this member {}; "
          "use one version of ffdl at all members",
          world_.generation, name(rank), reports_[rank].format, kProtocolVersion);
    }
    return {};
  }

  // Returns the lowest rank that has the base; none: no state may be the base.
  std::optional<size_t> find_base() const {
    if (base_ == Base::kOfRank0) return size_t{0};
    std::optional<size_t> base;
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      if (counts(rank) && (!base || label(rank) > label(*base))) base = rank;
    }
    return base;
  }

  Result<RescalePlan> make(size_t base) const {
    RescalePlan plan;
    plan.step = reports_[base].step;
    plan.made = {reports_[base].made_lineage, reports_[base].made_generation, plan.step};
    plan.history = base_ == Base::kOfRank0 ? reports_[base].hash : reports_[base].history;
    if (base_ == Base::kFromMemory) {
      plan.base = label(base);
      plan.holder = name(base);
    }
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

  StateLabel label(size_t rank) const { return reports_[rank].label(); }

 private:
  bool counts(size_t rank) const {
    if (reports_[rank].holds == 0) return false;
    return base_ == Base::kFromMemory || reports_[rank].lineage == world_.lineage;
  }
  const std::string& name(size_t rank) const { return world_.members[rank].id; }

  Result<bool> has_base(size_t rank, size_t base) const {
    const Report& mine = reports_[rank];
    const Report& its = reports_[base];
    if (base_ == Base::kOfRank0) {
      return rank == base || (mine.model == its.model && mine.hash == its.hash);
    }
    if (!counts(rank) || label(rank) != label(base)) return false;
    const bool hashes_differ = mine.hash != 0 && its.hash != 0 && mine.hash != its.hash;
    // One of them may have entered a world that never counted, or have loaded a checkpoint.
    if (base_ == Base::kFromMemory) return rank == base || !hashes_differ;
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
  const Base base_;
};

}  // namespace

Result<RescalePlan> plan_rescale(std::span<const Report> reports, const World& world) {
  const Plan plan(reports, world,
                  world.begins_anew() ? Plan::Base::kOfRank0 : Plan::Base::kOfLineage);
  FFDL_RETURN_IF_ERROR(plan.check_versions());
  const auto base = plan.find_base();
  if (base) return plan.make(*base);
  return base::make_error(
      StatusCode::kInternal,
      "begin generation {}: none of its {} members holds the state of lineage {}, though one of "
      "them must",
      world.generation, reports.size(), world.lineage);
}

Result<std::optional<RescalePlan>> plan_from_memory(std::span<const Report> reports,
                                                    const World& world,
                                                    const std::optional<StateLabel>& checkpoint) {
  FFDL_CHECK(world.begins_anew() && !world.gives_up, "a lineage begins, and nobody goes back");
  const Plan plan(reports, world, Plan::Base::kFromMemory);
  FFDL_RETURN_IF_ERROR(plan.check_versions());
  const auto base = plan.find_base();
  if (!base || plan.label(*base) < checkpoint) return std::optional<RescalePlan>();
  FFDL_ASSIGN_OR_RETURN(RescalePlan made, plan.make(*base));
  return std::optional<RescalePlan>(std::move(made));
}

}  // namespace ffdl::elastic
