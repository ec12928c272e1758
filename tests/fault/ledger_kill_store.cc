#include <fmt/format.h>
#include <unistd.h>

#include "fault/ledger_kill_job.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/store.h"

namespace ffdl::ledger_kill {
namespace {

using namespace std::chrono_literals;

class StoreJob final : public Job {
 public:
  StoreJob(const JobOptions& options, Board& board) : options_(options), board_(board) {}

  Status train(int number) override {
    FFDL_ASSIGN_OR_RETURN(
        const auto log,
        CommitLog::open(fmt::format("{}/commits-{}-{}", options_.folder, number, getpid()),
                        data_of(options_.epochs)));
    // One of the workers serves the store, and may be killed like any other.
    FFDL_ASSIGN_OR_RETURN(const auto store,
                          open_store("tcp://" + options_.folder + "/store", system_runtime(),
                                     {.operation_timeout = 60s,  // its server may be stopped
                                      .leases_outlive_connection = true}));
    while (true) {
      const Status ended = live(*store, *log, number);
      const StatusCode code = ended.code();
      const bool goes_on = code == StatusCode::kCancelled || code == StatusCode::kTimeout ||
                           code == StatusCode::kUnavailable;
      if (!goes_on) return ended;
    }
  }

  // Checks that no more samples were used twice than the ledger counts.
  std::string check(const CommitAudit& audit) override {
    const uint64_t extra = board_.used - audit.samples;
    const std::string counts =
        fmt::format("{} samples used twice, of {} that are counted", extra, board_.repeated.load());
    fmt::print("{}\n", counts);
    const bool is_right = board_.used >= audit.samples && extra <= board_.repeated;
    return is_right ? "" : counts;
  }

 private:
  static Status wait_or_go_on(SampleLedger& ledger) {
    const Status waited = ledger.wait(deadline_in(100ms));
    return waited.code() == StatusCode::kTimeout ? Status() : waited;
  }

  // Runs one life. Returns OK when all is done or the worker has left.
  Status live(Store& store, CommitLog& log, int number) {
    StoreLedgerOptions options;
    options.member.on_stable = [&log](const CommittedStep& step) { log.write(step); };
    options.id = fmt::format("w{}", number);
    options.lease = kLease;
    FFDL_ASSIGN_OR_RETURN(const auto ledger,
                          make_store_ledger(data_of(options_.epochs), options, store));
    while (!ledger->is_done()) {
      if (board_.leave[static_cast<size_t>(number)]) return ledger->leave();
      FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take(kBatch));
      if (ranges.empty()) FFDL_RETURN_IF_ERROR(wait_or_go_on(*ledger));
      board_.used += ledger->taken();
      Status committed;
      do committed = ledger->commit();
      while (committed.code() == StatusCode::kTimeout ||
             committed.code() == StatusCode::kUnavailable);
      // It was stopped for longer than its lease. The next take() joins again.
      if (committed.code() != StatusCode::kWorldChanged) FFDL_RETURN_IF_ERROR(committed);
    }
    board_.repeated = ledger->repeated();
    board_.is_done = true;
    return {};
  }

  const JobOptions options_;
  Board& board_;
};

}  // namespace

std::unique_ptr<Job> make_store_job(const JobOptions& options, Board& board) {
  return std::make_unique<StoreJob>(options, board);
}

}  // namespace ffdl::ledger_kill
