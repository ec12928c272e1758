#include "data/ledger/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/limits.h"

namespace ffdl::data {
namespace {

constexpr size_t kProblemsMax = 100;

template <class Use>
bool is_before(const Use& a, const Use& b) {
  if (a.range.partition != b.range.partition) return a.range.partition < b.range.partition;
  return a.range.begin != b.range.begin ? a.range.begin < b.range.begin : a.step < b.step;
}

}  // namespace

void Audit::add(const CommittedStep& step, const std::string& where, size_t job) {
  Lineage& lineage = told_[{job, step.lineage}];
  if (step.continues > 0) lineage.continues = step.continues;
  const auto [known, is_new] = lineage.steps.try_emplace(step.step, Told{step, where});
  if (is_new || known->second.step == step) return;
  problem(fmt::format("step {} has different records in {} and in {}", step.step,
                      known->second.where, where));
}

CommitAudit Audit::finish(const CommitAuditOptions& options) {
  const auto steps = surviving_steps();
  audit_.steps = static_cast<uint64_t>(std::ranges::count_if(
      steps, [](const auto& numbered) { return !numbered.second.parts.empty(); }));
  count_undone(steps);
  check(uses_of(steps), options.complete);
  return std::move(audit_);
}

// Returns the steps that count: those of the last lineage, and before its first one those of the
// lineage that it continues.
std::map<uint64_t, CommittedStep> Audit::surviving_steps() const {
  std::map<uint64_t, CommittedStep> steps;
  if (told_.empty()) return steps;
  uint64_t end = std::numeric_limits<uint64_t>::max();
  for (auto lineage = std::prev(told_.end()); lineage != told_.end();
       lineage = continued_by(lineage)) {
    const auto& all = lineage->second.steps;
    for (auto told = all.begin(); told != all.lower_bound(end); ++told) {
      steps.emplace(told->first, told->second.step);
    }
    end = std::min(end, all.begin()->first);
  }
  return steps;
}

// Returns the lineage that this one continues; the end: none. A job continues the last lineage of
// the job before.
Audit::Lineages::const_iterator Audit::continued_by(Lineages::const_iterator lineage) const {
  const auto [job, number] = lineage->first;
  const uint64_t told = lineage->second.continues;
  const bool is_earlier = told > 0 && told < number;
  const auto later = is_earlier ? told_.upper_bound({job, told}) : lineage;
  return later == told_.begin() ? told_.end() : std::prev(later);
}

void Audit::count_undone(const std::map<uint64_t, CommittedStep>& surviving) {
  std::map<uint64_t, std::vector<const CommittedStep*>> undone;
  for (const auto& [key, lineage] : told_) {
    for (const auto& [number, told] : lineage.steps) {
      const auto kept = surviving.find(number);
      if (kept != surviving.end() && kept->second == told.step) continue;
      auto& known = undone[number];
      const bool is_known = std::ranges::any_of(
          known, [&](const CommittedStep* other) { return *other == told.step; });
      if (is_known) continue;
      known.push_back(&told.step);
      for (const auto& part : told.step.parts) audit_.undone += part.range.end - part.range.begin;
    }
  }
}

std::vector<Audit::Use> Audit::uses_of(const std::map<uint64_t, CommittedStep>& steps) {
  std::vector<Use> uses;
  for (const auto& [number, step] : steps) {
    for (const auto& [member, range] : step.parts) {
      if (!data_.has(range) || epoch_of(range) >= base::kEpochsMax) {
        problem(
            fmt::format("step {} has samples [{}, {}) of partition {}, which are not in one "
                        "epoch of the data set",
                        number, range.begin, range.end, range.partition));
        continue;
      }
      uses.push_back({range, number, &member.id});
      audit_.samples += range.end - range.begin;
    }
  }
  std::sort(uses.begin(), uses.end(), is_before<Use>);
  return uses;
}

uint64_t Audit::epoch_of(const SampleRange& range) const {
  return range.begin / data_.samples_of(range.partition);
}

void Audit::check(std::span<const Use> uses, bool complete) {
  uint64_t begun = 0;  // number of epochs
  for (const Use& use : uses) begun = std::max(begun, epoch_of(use.range) + 1);
  audit_.epochs = begun == 0 ? 0 : begun - 1;
  const uint64_t whole = complete ? std::max(epochs_, begun) : audit_.epochs;
  uint64_t next = 0;  // partition
  for (size_t begin = 0; begin < uses.size();) {
    size_t end = begin;
    const uint32_t partition = uses[begin].range.partition;
    while (end < uses.size() && uses[end].range.partition == partition) ++end;
    check_unused(next, partition, whole);
    check_partition(partition, uses.subspan(begin, end - begin), whole);
    next = uint64_t{partition} + 1;
    begin = end;
  }
  check_unused(next, data_.partitions(), whole);
  if (audit_.under_way == data_.samples && audit_.missing == 0) {
    ++audit_.epochs;
    audit_.under_way = 0;
  }
}

void Audit::check_unused(uint64_t begin, uint64_t end, uint64_t whole) {
  if (begin >= end || whole == 0) return;
  const uint64_t last = std::min(end * data_.partition_samples, data_.samples);
  audit_.missing += whole * (last - begin * data_.partition_samples);
  problem(fmt::format("all samples of partitions [{}, {}) are missing, in {} epochs", begin, end,
                      whole));
}

void Audit::check_partition(uint32_t partition, std::span<const Use> uses, uint64_t whole) {
  const uint64_t samples = data_.samples_of(partition);
  const uint64_t last_epoch = audit_.epochs * samples;
  const Use* furthest = nullptr;
  uint64_t next = 0;  // position up to which all samples are checked
  const auto missing_until = [&](uint64_t end) {
    end = std::min(end, whole * samples);
    if (next >= end) return;
    audit_.missing += end - next;
    problem(fmt::format("samples [{}, {}) of partition {} are missing, from epoch {} on", next, end,
                        partition, next / samples));
  };
  for (const Use& use : uses) {
    missing_until(use.range.begin);
    if (use.range.begin < next) {
      const uint64_t end = std::min(next, use.range.end);
      audit_.repeated += end - use.range.begin;
      problem(
          fmt::format("samples [{}, {}) of partition {} are repeated in epoch {}: '{}' in step "
                      "{}, '{}' in step {}",
                      use.range.begin, end, partition, use.range.begin / samples, *furthest->member,
                      furthest->step, *use.member, use.step));
    }
    if (use.range.end <= next) continue;
    const uint64_t fresh = std::max({next, use.range.begin, last_epoch});
    if (use.range.end > fresh) audit_.under_way += use.range.end - fresh;
    next = use.range.end;
    furthest = &use;
  }
  missing_until(whole * samples);
}

void Audit::problem(std::string text) {
  ++audit_.problems;
  if (audit_.first_problems.size() < kProblemsMax) {
    audit_.first_problems.push_back(std::move(text));
  }
}

}  // namespace ffdl::data
