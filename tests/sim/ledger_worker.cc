#include "sim/ledger_worker.h"

#include <fmt/format.h>

#include "data/ledger/ledger_options.h"

namespace ffdl::sim {

using namespace std::chrono_literals;

void LedgerChecker::on_committed(uint64_t lineage, const CommittedStep& step,
                                 const std::string& worker) {
  const auto [known, is_new] = told_.emplace(std::pair(lineage, step.step), step);
  if (step.lineage == lineage && (is_new || known->second == step)) return;
  violation(fmt::format("'{}' tells step {} of lineage {} otherwise than another", worker,
                        step.step, lineage));
}

void LedgerChecker::check_end(uint64_t repeated) {
  data::Audit audit({.samples = data_.samples, .partition_samples = data_.partition_samples},
                    data_.epochs);
  for (const auto& [number, step] : told_) audit.add(step, "a worker");
  const CommitAudit made = audit.finish({.complete = true});
  if (made.problems > 0) violation(made.first_problems.front());
  if (made.samples != data_.epochs * data_.samples) {
    violation(fmt::format("{} samples are committed in {} epochs of {}", made.samples, data_.epochs,
                          data_.samples));
  }
  if (has_restarted_) return;
  if (used_ < made.samples) violation("a sample is committed that no gradient was of");
  if (acknowledged_ > made.samples) {
    violation(fmt::format("commit() returned ok for {} samples, and {} are committed",
                          acknowledged_, made.samples));
  }
  if (used_ - made.samples > repeated) {
    violation(fmt::format("{} samples were used more than once, and {} are counted",
                          used_ - made.samples, repeated));
  }
}

LedgerWorker::LedgerWorker(LedgerJob& job, SimNode& node, std::unique_ptr<FaultyStore> store,
                           std::string id)
    : Process(node, std::move(store), std::move(id), ""),
      job_(job),
      runtime_(job.runtime),
      lineage_(job.lineage) {
  task_ = node_.spawn("user", [this](const StopToken&) {
    run();
    has_ended_ = true;
  });
}

void LedgerWorker::run() {
  while (!node_.is_killed() && !has_ended_) {
    const Status ended = live();
    ledger_.reset();
    if (ended.ok() || node_.is_killed()) return;
    if (job_.lineage > lineage_) return;  // the job began again
    const StatusCode code = ended.code();
    if (code != StatusCode::kCancelled && code != StatusCode::kUnavailable &&
        code != StatusCode::kTimeout) {
      job_.checker.violation(ended.to_string());
    }
    runtime_.sleep(runtime_.up_to(50ms));
  }
}

template <class Call>
Status LedgerWorker::insist(Call&& call) {
  while (true) {
    const Status status = call();
    const bool again =
        status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kTimeout;
    if (!again || node_.is_killed()) return status;
    runtime_.sleep(runtime_.up_to(20ms));
  }
}

// Runs until the life of the ledger ends. Returns OK if all is done or the worker has left.
Status LedgerWorker::live() {
  StoreLedgerOptions options;
  options.member.partitions_wanted = static_cast<int>(1 + runtime_.below(3));
  options.member.on_stable = [this](const CommittedStep& step) {
    job_.checker.on_committed(lineage_, step, id_);
  };
  options.id = id_;
  options.lineage = lineage_;
  options.from = job_.from;
  options.lease = job_.lease;
  FFDL_ASSIGN_OR_RETURN(ledger_, make_store_ledger(job_.data, options, *store_, node_));
  while (!ledger_->is_done()) {
    if (node_.is_killed()) return Status(StatusCode::kCancelled, "killed");
    if (is_leaving_) return insist([&] { return ledger_->leave(); });
    FFDL_RETURN_IF_ERROR(make_step());
  }
  is_done_ = true;
  return {};
}

Status LedgerWorker::make_step() {
  std::vector<SampleRange> ranges;
  FFDL_RETURN_IF_ERROR(insist([&]() -> Status {
    FFDL_ASSIGN_OR_RETURN(ranges, ledger_->take(1 + runtime_.below(job_.batch_max)));
    return {};
  }));
  if (ranges.empty()) {
    const Status waited = ledger_->wait(node_.now() + 200ms);
    return waited.code() == StatusCode::kTimeout || waited.code() == StatusCode::kUnavailable
               ? Status()
               : waited;
  }
  runtime_.sleep(runtime_.up_to(job_.compute_max));
  if (node_.is_killed()) return Status(StatusCode::kCancelled, "killed");
  job_.checker.on_used(data::samples_in(ranges));
  const Status committed = insist([&] { return ledger_->commit(); });
  if (committed.code() == StatusCode::kWorldChanged) {  // others got the samples
    ++job_.returns;
    return {};
  }
  FFDL_RETURN_IF_ERROR(committed);
  job_.checker.on_acknowledged(data::samples_in(ranges));
  if (!runtime_.chance(0.05)) return {};
  const auto saved = ledger_->save();
  if (saved.ok() && job_.lineage == lineage_) job_.saved = *saved;
  return {};
}

}  // namespace ffdl::sim
