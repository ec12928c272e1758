#include "benchmarks/rescale/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace ffdl::bench {

Result<AuditResult> check_audit(const std::vector<std::string>& texts) {
  std::map<uint64_t, std::string> steps;  // the samples used, by step
  for (const std::string& text : texts) {
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      std::istringstream line(text.substr(begin, end - begin));
      uint64_t step = 0;
      line >> step;
      std::string used;
      std::getline(line, used);
      if (steps.try_emplace(step, used).first->second == used) continue;
      return Status(StatusCode::kInternal,
                    fmt::format("compare audits: step {} used{} and{}", step, steps[step], used));
    }
  }
  AuditResult result;
  result.steps = steps.size();
  if (!steps.empty()) result.steps_lost = steps.rbegin()->first - steps.size();
  std::map<uint64_t, std::multimap<uint64_t, uint64_t>> ranges;  // by partition: begin, end
  for (const auto& [step, used] : steps) {
    std::istringstream words(used);
    for (uint64_t partition, begin, end; words >> partition >> begin >> end;) {
      ranges[partition].emplace(begin, end);
    }
  }
  for (const auto& [partition, used] : ranges) {
    uint64_t next = 0;
    for (const auto& [begin, end] : used) {
      if (begin > next) result.samples_lost += begin - next;
      if (begin < next) result.samples_repeated += std::min(end, next) - begin;
      next = std::max(next, end);
    }
  }
  return result;
}

}  // namespace ffdl::bench
