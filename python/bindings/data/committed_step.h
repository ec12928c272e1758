#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/base/raised.h"
#include "ffdl/data/sample_ledger.h"

namespace ffdl::python {

// A Python CommittedStep. Its parts are pairs.
struct CommittedParts {
  uint64_t step = 0;
  std::vector<std::pair<Member, SampleRange>> parts;
  uint64_t lineage = 1;
  uint64_t continues = 0;
};

inline CommittedParts parts_of(const CommittedStep& committed) {
  CommittedParts step{.step = committed.step, .parts = {}, .lineage = committed.lineage,
                      .continues = committed.continues};
  for (const auto& part : committed.parts) step.parts.emplace_back(part.member, part.range);
  return step;
}

inline CommittedStep step_of(const CommittedParts& parts) {
  CommittedStep step{.step = parts.step, .parts = {}, .lineage = parts.lineage,
                     .continues = parts.continues};
  for (const auto& [member, range] : parts.parts) step.parts.push_back({member, range});
  return step;
}

// Returns a LedgerMemberOptions::on_stable that calls a Python function, or none for None. The
// caller keeps the function alive: the result may be copied and dropped without the interpreter
// lock.
inline std::function<void(const CommittedStep&)> telling(std::shared_ptr<Raised> raised,
                                                         pybind11::handle on_stable) {
  if (on_stable.is_none()) return {};
  return [raised = std::move(raised), on_stable](const CommittedStep& step) {
    raised->in([&] { on_stable(parts_of(step)); });
  };
}

}  // namespace ffdl::python
