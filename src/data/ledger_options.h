#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/data_set.h"
#include "data/ledger_state.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/status.h"

// What all ledgers do with their options and ranges.
namespace ffdl::data {

// Errors: kInvalidArgument.
Status check_options(const PartitionLedgerOptions& options);
LedgerRules rules_of(const PartitionLedgerOptions& options);

uint64_t samples_in(std::span<const SampleRange> ranges);
// SampleLedger::sample_indices().
Result<std::vector<uint64_t>> look_up(std::span<const SampleRange> ranges, const DataSet& data);

}  // namespace ffdl::data
