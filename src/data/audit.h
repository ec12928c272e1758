#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/data_set.h"
#include "ffdl/commit_log.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/types.h"

namespace ffdl::data {

// Puts together what members tell of the steps of one job, and finds what is missing or repeated.
// Pure: it knows no files.
class Audit {
 public:
  // Of the data set its size and its partitions count. epochs: how many there are to be; 0: any.
  Audit(const DataSet& data, uint64_t epochs) : data_(data), epochs_(epochs) {}

  // `where` is named if another told the same step otherwise. `job`: how many came before.
  void add(const CommittedStep& step, const std::string& where, size_t job = 0);
  CommitAudit finish(const CommitAuditOptions& options);

 private:
  struct Told {
    CommittedStep step;
    std::string where;
  };

  // What one member committed in one step.
  struct Use {
    SampleRange range;
    uint64_t step;
    const std::string* member;
  };

  std::map<uint64_t, CommittedStep> surviving_steps() const;
  std::vector<Use> uses_of(const std::map<uint64_t, CommittedStep>& steps);
  uint64_t epoch_of(const SampleRange& range) const;
  void check(std::span<const Use> uses, bool complete);
  void check_unused(uint64_t begin, uint64_t end, uint64_t whole);
  void check_partition(uint32_t partition, std::span<const Use> uses, uint64_t whole);
  void problem(std::string text);

  DataSet data_;
  uint64_t epochs_;
  // By job, lineage and step.
  std::map<std::pair<size_t, uint64_t>, std::map<uint64_t, Told>> told_{};
  CommitAudit audit_{};
};

}  // namespace ffdl::data
