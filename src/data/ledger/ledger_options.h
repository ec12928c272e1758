#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/ledger/data_set.h"
#include "data/ledger/ledger_state.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/status.h"

// Handling of options and ranges that all ledgers share.
namespace ffdl::data {

// Errors: kInvalidArgument.
Status check_options(const LedgerOptions& options, const LedgerMemberOptions& member);
LedgerRules rules_of(const LedgerOptions& options);

uint64_t samples_in(std::span<const SampleRange> ranges);
// Implements SampleLedger::sample_indices().
Result<std::vector<uint64_t>> look_up(std::span<const SampleRange> ranges, const DataSet& data);

}  // namespace ffdl::data
