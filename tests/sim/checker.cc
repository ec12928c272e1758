#include "sim/checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/ledger/audit.h"

namespace ffdl::sim {
namespace {

using Steps = std::vector<uint64_t>;

bool is_prefix(const Steps& shorter, const Steps& longer) {
  return shorter.size() <= longer.size() &&
         std::equal(shorter.begin(), shorter.end(), longer.begin());
}

}  // namespace

void Checker::on_world(Revision expected, const Entry& entry) {
  if (expected != revision_) {
    violation(fmt::format("I1: a write took effect whose writer had read revision {}, not {}",
                          expected, revision_));
  }
  const auto parsed = membership::parse_world(entry.value);
  if (!parsed.ok()) return violation("a record was written that cannot be read: " + entry.value);
  on_seen(parsed->generation, parsed->members);
  check_restart(*parsed);
  check_publication(*parsed);
  record_ = *parsed;
  revision_ = entry.revision;
  if (parsed->phase == Phase::kActive && active_.insert(parsed->generation).second) {
    check_active(parsed->generation);
  }
}

void Checker::on_seen(uint64_t generation, const std::vector<Member>& members) {
  const auto& first = members_.emplace(generation, members).first->second;
  if (first != members) {
    violation(fmt::format("I2: generation {} has two lists of members", generation));
  }
}

void Checker::check_restart(const membership::WorldRecord& next) {
  if (!record_) return;
  if (record_->completion && next.completion != record_->completion) {
    violation("I12: the record of a job that is done says something else");
  }
  if (next.lineage == record_->lineage) return;
  if (next.restart_base != record_->checkpoint) {
    violation(fmt::format("I11: lineage {} begins from another than the newest checkpoint",
                          next.lineage));
  }
  if (next.gives_up()) return;  // on_act() checks the living members
  for (const Member& carrier : record_->state_holders) {
    void_.emplace(carrier.id, carrier.incarnation);
    if (!is_alive_(carrier)) continue;
    violation(fmt::format("I11: lineage {} begins while '{}' has the state of lineage {}",
                          next.lineage, carrier.id, record_->lineage));
  }
}

void Checker::check_publication(const membership::WorldRecord& next) {
  if (!next.checkpoint || !record_ || record_->checkpoint == next.checkpoint) return;
  if (read_) read_checkpoint(*next.checkpoint);
  const State& state = saved_.at(next.checkpoint->manifest);
  if (state.lineage != next.lineage) {
    violation(fmt::format("I11: a checkpoint of lineage {} is published in lineage {}",
                          state.lineage, next.lineage));
  }
  if (record_->checkpoint &&
      !is_prefix(saved_.at(record_->checkpoint->manifest).steps, state.steps)) {
    violation("I8: a checkpoint replaces a newer one");
  }
}

void Checker::read_checkpoint(const CheckpointPointer& checkpoint) {
  auto state = read_(checkpoint);
  if (!state || state->steps.size() != checkpoint.step) {
    violation(fmt::format("a checkpoint is published that {}: '{}'",
                          state ? "holds no state that ever was" : "cannot be loaded",
                          checkpoint.manifest));
  }
  saved_[checkpoint.manifest] = std::move(state).value_or(State{});
}

void Checker::check_active(uint64_t generation) {
  const auto base = bases_.find(generation);
  for (const Member& member : members_.at(generation)) {
    settled_[{member.id, member.incarnation}] = record_->lineage;
  }
  if (base == bases_.end()) return;  // checked when the base is known
  const Steps& steps = base->second.steps;
  const bool is_first = last_active_.insert_or_assign(record_->lineage, generation).second;
  if (is_first && steps != beginning_of(generation).steps) {
    violation(fmt::format("I11: lineage {} begins with another state than the newest",
                          record_->lineage));
  }
  if (is_first) check_stable_steps(generation, steps);
  if (!is_prefix(stable_[record_->lineage], steps)) {
    violation(fmt::format("I9: generation {} is active without a stable step", generation));
  }
  if (record_->checkpoint && !is_prefix(saved_.at(record_->checkpoint->manifest).steps, steps)) {
    violation(fmt::format("I8: generation {} is active without a published step", generation));
  }
}

// A stable step of the last active lineage is not lost if a member of the new one's first world
// holds it.
void Checker::check_stable_steps(uint64_t generation, const Steps& base) {
  const auto it = last_active_.lower_bound(record_->lineage);
  if (it == last_active_.begin() || record_->recovery != Recovery::kForward) return;
  const Steps& stable = stable_[std::prev(it)->first];
  const uint64_t lineage_of_base = beginning_of(generation).label.lineage;
  const auto common = [&](const Steps& steps) {
    return std::ranges::mismatch(steps, stable).in1 - steps.begin();
  };
  for (const auto& [label, held] : all_held_[generation]) {
    // A step that was applied by some members only may be lost. A state of an earlier lineage than
    // the base's may have more steps.
    const bool is_of_base = label.lineage == lineage_of_base;
    if (is_of_base && is_prefix(base, held) && held.size() > base.size() + 1) {
      violation(fmt::format("I11: lineage {} begins before a state that a member holds",
                            record_->lineage));
    }
    if (common(held) <= common(base)) continue;
    violation(fmt::format("I11: lineage {} begins without a stable step that a member holds",
                          record_->lineage));
  }
}

// Consistent recovery goes back to checkpoints alone.
Checker::Held Checker::beginning_of(uint64_t generation) const {
  const auto& checkpoint = record_->restart_base;
  const auto held = held_.find(generation);
  const bool is_forward = record_->recovery == Recovery::kForward;
  if (is_forward && held != held_.end()) {
    if (!checkpoint || held->second.label >= checkpoint->label()) return held->second;
  }
  if (!checkpoint) return {};
  return {checkpoint->label(), saved_.at(checkpoint->manifest).steps};
}

void Checker::on_held(uint64_t generation, const StateLabel& label, const Steps& steps) {
  Held& newest = held_[generation];
  if (newest.label == label && newest.steps != steps) {
    violation(fmt::format("two states have the label of step {} of generation {}", label.step,
                          label.generation));
  }
  if (newest.label < label) newest = {label, steps};
  all_held_[generation].push_back({label, steps});
}

void Checker::on_base(uint64_t generation, const State& base) {
  const auto [known, is_new] = bases_.emplace(generation, base);
  if (known->second.steps != base.steps) {
    violation(fmt::format("I6: members of generation {} begin with different states", generation));
  }
  if (is_new && active_.contains(generation)) check_active(generation);
}

void Checker::on_sum(const std::vector<SharedState>& states) {
  for (const SharedState& state : states) {
    if (state->steps != states.front()->steps) violation("I6: one sum of different states");
  }
}

void Checker::on_stable(const World& world, const std::vector<uint64_t>& steps) {
  ++stable_steps_;
  working_generation_ = world.generation;
  Steps& longest = stable_[world.lineage];
  if (is_prefix(steps, longest)) return;  // a member that was stopped may report it late
  // A member that was stopped may report late how many steps a lineage had that was given up.
  if (end_ && world.lineage >= end_lineage_ && !is_prefix(steps, *end_)) {
    violation(fmt::format("I12: step {} of lineage {} became stable after the job was done",
                          steps.size(), world.lineage));
  }
  if (!is_prefix(longest, steps)) {
    violation(fmt::format("I3: two histories of lineage {} became stable", world.lineage));
  }
  longest = steps;
}

void Checker::on_step(uint64_t before, uint64_t after, uint64_t step) {
  ++applied_steps_;
  std::vector<uint64_t> history = steps(before);
  history.push_back(after);
  if (history.size() != step) violation("a step has another number than it is the how-manieth");
  histories_.try_emplace(after, std::move(history));
}

const Steps& Checker::steps(uint64_t name) const {
  const auto found = histories_.find(name);
  return found == histories_.end() ? histories_.at(0) : found->second;
}

void Checker::on_committed(uint64_t lineage, const CommittedStep& step) {
  const auto [known, is_new] = committed_.emplace(std::pair(lineage, step.step), step);
  if (step.lineage != lineage) {
    violation(fmt::format("I4: step {} of lineage {} is told as of lineage {}", step.step, lineage,
                          step.lineage));
  }
  if (known->second != step) {
    violation(fmt::format("I4: step {} of lineage {} committed other samples at another member",
                          step.step, lineage));
  }
  if (!is_new) return;
  for (const auto& part : step.parts) {
    samples_ += part.range.end - part.range.begin;
    auto& ranges = ranges_[{lineage, part.range.partition}];
    const auto next = ranges.lower_bound(part.range.begin);
    const bool overlaps = (next != ranges.end() && next->first < part.range.end) ||
                          (next != ranges.begin() && std::prev(next)->second > part.range.begin);
    if (overlaps) {
      violation(fmt::format("I4: step {} commits samples {} to {} of partition {} once more",
                            step.step, part.range.begin, part.range.end, part.range.partition));
    }
    ranges.emplace(part.range.begin, part.range.end);
  }
}

void Checker::check_epochs(const data::DataSet& data) {
  data::Audit audit(data, 0);
  for (const auto& [number, step] : committed_) audit.add(step, "a member");
  const CommitAudit made = audit.finish({});
  if (made.problems > 0) violation(fmt::format("I4: {}", made.first_problems.front()));
}

void Checker::on_finished(uint64_t lineage, const Steps& steps) {
  if (end_ && *end_ != steps) violation("I12: the job ended with two states");
  end_ = steps;
  end_lineage_ = lineage;
}

// One member of the last active world of a lineage must settle before the next lineage is active.
// Then no step of that world can be whole any more, even if its other members still give theirs.
void Checker::on_act(const World& world) {
  const Member& self = world.members[static_cast<size_t>(world.rank)];
  const auto gave_up = [&](const Member& member) {
    const auto settled = settled_.find({member.id, member.incarnation});
    return settled != settled_.end() && settled->second > world.lineage;
  };
  if (void_.contains({self.id, self.incarnation}) || gave_up(self)) {
    violation(fmt::format("I11: '{}' uses a state that was given up", self.id));
  }
  if (!record_ || world.lineage >= record_->active_lineage) return;
  const auto last = last_active_.find(world.lineage);
  if (last != last_active_.end() && last->second == world.generation &&
      std::none_of(world.members.begin(), world.members.end(), gave_up)) {
    violation(fmt::format("I11: generation {} goes on in lineage {}, beside lineage {}",
                          world.generation, world.lineage, record_->active_lineage));
  }
}

}  // namespace ffdl::sim
