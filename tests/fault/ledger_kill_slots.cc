#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "data/numbered_source.h"
#include "fault/ledger_kill_job.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "support/segment_name.h"

namespace ffdl::ledger_kill {
namespace {

using namespace std::chrono_literals;

// Pushes a gradient of one for each sample, so that the weights count the uses of each.
class SlotJob final : public Job {
 public:
  SlotJob(const JobOptions& options, Board& board) : options_(options), board_(board) {}

  bool has_server() const override { return true; }

  Status serve() override {
    ParameterServerOptions options;
    options.name = name_.text();
    options.parameters = data_of(1).samples;
    options.rule.learning_rate = 1;
    options.threads = 2;
    options.learners_max = kWorkersMax + 1;
    options.partitions = 15;
    options.staleness = static_cast<uint32_t>(options_.staleness);
    if (options.staleness > 0) options.synchrony = Synchrony::kStale;
    FFDL_ASSIGN_OR_RETURN(const auto server, name_.exists() ? ParameterServer::adopt(name_.text())
                                                            : ParameterServer::create(options));
    FFDL_RETURN_IF_ERROR(server->start());
    while (true) pause();
  }
  Status wait_served() override {
    return ParameterServerView::open(name_.text(), deadline_in(60s)).status();
  }

  Status train(int number) override {
    const LedgerOptions data = data_of(options_.epochs);
    FFDL_ASSIGN_OR_RETURN(
        const auto log,
        CommitLog::open(fmt::format("{}/commits-{}-{}", options_.folder, number, getpid()), data));
    LedgerMemberOptions member;
    member.on_stable = [&log](const CommittedStep& step) { log->write(step); };
    FFDL_ASSIGN_OR_RETURN(const auto learner, Learner::attach(name_.text(), deadline_in(60s)));
    FFDL_ASSIGN_OR_RETURN(const auto ledger, make_push_ledger(data, *learner, member));
    const testing::NumberedSource source(data.samples);
    FFDL_ASSIGN_OR_RETURN(const auto pipeline, DataPipeline::create(source, *ledger, {}));
    DataBatch batch;
    while (!ledger->is_done() && !board_.leave[static_cast<size_t>(number)]) {
      FFDL_RETURN_IF_ERROR(pipeline->next(batch, kBatch));
      FFDL_RETURN_IF_ERROR(batch.ranges.empty() ? wait_or_go_on(*ledger) : push(*learner, batch));
    }
    if (ledger->is_done()) board_.is_done = true;
    return learner->detach(deadline_in(60s));
  }

  // The model must match the log: one update of each sample in each epoch.
  std::string check(const CommitAudit&) override {
    auto server = ParameterServer::adopt(name_.text());
    if (!server.ok()) return server.status().to_string();
    Status ran = (*server)->start();
    if (ran.ok()) ran = (*server)->stop();
    if (!ran.ok()) return ran.to_string();
    const auto times = static_cast<float>(options_.epochs);
    const std::span<float> weights = (*server)->weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] != -times) {
        return fmt::format("sample {} is in the weights {} times", i, -weights[i]);
      }
    }
    const ParameterServerStats stats = (*server)->stats();
    for (const PartitionProgress& partition : stats.partitions) {
      if (partition.repeated == 0 && partition.missing == 0) continue;
      return fmt::format("{} samples repeated and {} missing in the server's ledger",
                         partition.repeated, partition.missing);
    }
    fmt::print("each sample in the weights once per epoch; {} interrupted folds finished\n",
               stats.recoveries);
    return "";
  }

 private:
  static Status wait_or_go_on(SampleLedger& ledger) {
    const Status waited = ledger.wait(deadline_in(100ms));
    return waited.code() == StatusCode::kTimeout ? Status() : waited;
  }

  Status push(Learner& learner, const DataBatch& batch) {
    FFDL_ASSIGN_OR_RETURN(const auto gradient, learner.gradient_slot(deadline_in(60s)));
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    for (const auto sample : batch.samples) gradient[testing::number_of(sample)] += 1;
    board_.used += batch.samples.size();
    return learner.push(Gradient::slot(), batch.ranges).status();
  }

  const JobOptions options_;
  Board& board_;
  const testing::SegmentName name_;
};

}  // namespace

std::unique_ptr<Job> make_slot_job(const JobOptions& options, Board& board) {
  return std::make_unique<SlotJob>(options, board);
}

}  // namespace ffdl::ledger_kill
