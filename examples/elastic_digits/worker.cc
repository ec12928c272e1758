#include "elastic_digits/worker.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <vector>

#include "elastic_jobs/model.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"

namespace elastic {
namespace {

using ffdl::Result;
using ffdl::SampleLedger;
using ffdl::Session;
using ffdl::Status;
using ffdl::StepResult;

double seconds_since(ffdl::Time start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Makes a ledger that gives the same mini-batches in the same order for any number of workers; each
// takes its share.
Result<std::unique_ptr<SampleLedger>> make_ledger(const Job& job) {
  ffdl::LedgerOptions options;
  options.samples = job.split.train.size();
  options.partition_samples = job.split.train.size();
  options.epochs = job.options.epochs;
  options.seed = job.options.seed;
  options.shuffle = ffdl::Shuffle::kSamples;
  options.order = ffdl::SampleOrder::kGlobal;
  options.batch_samples = job.options.mini_batch;
  return make_session_ledger(options);
}

// Writes whole lines, so that several workers can write one file.
class Log {
 public:
  Log(const Job& job, int number) : job_(job), number_(number), file_(job.log, std::ios::app) {}

  void step(const Session& session, const SampleLedger& ledger, float loss, uint64_t mine,
            double ffdl_ms) {
    write(fmt::format(
        R"({{"event":"step","t_s":{:.4f},"run":"{}","worker":{},"step":{},"epoch":{},"workers":{},)"
        R"("samples":{},"loss":{:.6g},"end_step_ms":{:.3f}}})",
        seconds_since(job_.start), job_.name, number_, session.step(), ledger.epoch(),
        session.world().size(), mine, loss, ffdl_ms));
  }
  void score(const Session& session, double accuracy, double val_accuracy) {
    write(fmt::format(
        R"({{"event":"end","t_s":{:.4f},"run":"{}","worker":{},"step":{},"test_accuracy":{:.6f},)"
        R"("val_accuracy":{:.6f}}})",
        seconds_since(job_.start), job_.name, number_, session.step(), accuracy, val_accuracy));
  }

 private:
  void write(const std::string& line) { file_ << line + "\n" << std::flush; }

  const Job& job_;
  const int number_;
  std::ofstream file_;
};

}  // namespace

Status train(const Job& job, int number, Board& board) {
  const auto model = digits_model(
      job.split, {.seed = job.options.seed, .learning_rate = job.options.learning_rate});
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_ledger(job));
  FFDL_ASSIGN_OR_RETURN(const auto store, ffdl::open_store(job.store, ffdl::system_runtime()));
  ffdl::SessionOptions options;
  options.self.id = fmt::format("worker-{}", number);
  options.participants = {ledger->participant()};
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, *model, *store));

  Log log(job, number);
  Board::Worker& mine = board.workers[static_cast<size_t>(number)];
  while (!ledger->is_done()) {
    if (mine.leave.load(std::memory_order_relaxed)) session->ask_to_leave();
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take());
    FFDL_ASSIGN_OR_RETURN(const auto samples, ledger->sample_indices(ranges));
    const float loss = model->compute(samples, session->step());
    const auto before = std::chrono::steady_clock::now();
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step());
    if (result == StepResult::kLeft) return {};
    if (result == StepResult::kRetryStep || result == StepResult::kHealed) continue;
    log.step(*session, *ledger, loss, samples.size(), 1000 * seconds_since(before));
    board.samples.store(ledger->epoch() * job.split.train.size() + ledger->committed(),
                        std::memory_order_relaxed);
    mine.steps.fetch_add(1, std::memory_order_relaxed);
  }
  if (session->world().rank == 0) {
    log.score(*session, model->test().accuracy, model->validate().accuracy);
  }
  return session->finish();
}

}  // namespace elastic
