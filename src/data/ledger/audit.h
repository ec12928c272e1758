#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/ledger/data_set.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/types.h"

namespace ffdl::data {

// Merges the records that members kept of the steps of one job. Finds missing and repeated samples.
// Pure: it reads no files.
class Audit {
 public:
  // Uses only the size and the partitions of the data set. epochs: the expected number; 0: any.
  Audit(const DataSet& data, uint64_t epochs) : data_(data), epochs_(epochs) {}

  // Adds a step. `where` is named in a problem if another record of the step differs. `job`: the
  // number of earlier jobs.
  void add(const CommittedStep& step, const std::string& where, size_t job = 0);
  CommitAudit finish(const CommitAuditOptions& options);

 private:
  struct Told {
    CommittedStep step;
    std::string where;
  };

  // Samples that one member committed in one step.
  struct Use {
    SampleRange range;
    uint64_t step;
    const std::string* member;
  };

  // The steps that were told in one lineage of one job.
  struct Lineage {
    std::map<uint64_t, Told> steps{};
    uint64_t continues = 0;  // 0: the one before
  };
  using Lineages = std::map<std::pair<size_t, uint64_t>, Lineage>;  // by job and lineage

  std::map<uint64_t, CommittedStep> surviving_steps() const;
  Lineages::const_iterator continued_by(Lineages::const_iterator lineage) const;
  void count_undone(const std::map<uint64_t, CommittedStep>& surviving);
  std::vector<Use> uses_of(const std::map<uint64_t, CommittedStep>& steps);
  uint64_t epoch_of(const SampleRange& range) const;
  void check(std::span<const Use> uses, bool complete);
  void check_unused(uint64_t begin, uint64_t end, uint64_t whole);
  void check_partition(uint32_t partition, std::span<const Use> uses, uint64_t whole);
  void problem(std::string text);

  DataSet data_;
  uint64_t epochs_;
  Lineages told_{};
  CommitAudit audit_{};
};

}  // namespace ffdl::data
