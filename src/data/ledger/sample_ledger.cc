#include "ffdl/data/sample_ledger.h"

#include "base/errors.h"

// The functions that only some ledgers have.
// The ledgers themselves are in push_ledger.cc, session_ledger.cc and store_ledger.cc.
namespace ffdl {

using base::invalid_argument;

Status SampleLedger::wait(Time /*deadline*/) { return {}; }
std::vector<std::vector<SampleRange>> SampleLedger::forecast(size_t /*steps*/) { return {}; }
void SampleLedger::want(int /*partitions*/) {}
StepParticipant* SampleLedger::participant() { return nullptr; }
uint64_t SampleLedger::batch_samples() const { return 0; }
std::vector<uint64_t> SampleLedger::shares() const { return {}; }
uint64_t SampleLedger::repeated() const { return 0; }

Result<std::vector<std::byte>> SampleLedger::save() {
  return invalid_argument(
      "save a ledger: the progress of this ledger is in the parameter server; save a cut of the "
      "server");
}
Status SampleLedger::commit() {
  return invalid_argument(
      "commit samples: this ledger is not in a store; end the step of the session, or push the "
      "gradient, which commits them");
}
Status SampleLedger::leave() {
  return invalid_argument(
      "leave a ledger: this one is not in a store; leave the session, or destroy the ledger");
}

}  // namespace ffdl
