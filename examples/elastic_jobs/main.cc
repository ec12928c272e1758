// One worker of a job that may change its size while it trains: the digits or the customer queries.
//
//   ffdl run --workers 1:4 --job digits elastic_worker digits --data digits.csv.gz --out run
//
// `ffdl scale digits 2` and `ffdl migrate digits 1` change the workers meanwhile, and workers that
// are killed start again.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "elastic_jobs/model.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/launch/environment.h"
#include "ffdl/session.h"
#include "ffdl/tuning/stragglers.h"

namespace elastic {
namespace {

using ffdl::Result;
using ffdl::SampleLedger;
using ffdl::Session;
using ffdl::Status;
using ffdl::StepResult;

struct Options {
  std::string task{};
  std::string data{};
  std::string out{};
  uint64_t epochs = 10;
  uint64_t mini_batch = 32;
  uint64_t virtual_workers = 0;
  uint64_t micro_batch_max = 0;
  float learning_rate = 0.02F;
  uint64_t seed = 1;
  uint64_t hold_ms = 0;
  double straggler_factor = 0;
};

volatile sig_atomic_t asked_to_end = 0;

// Writes lines of JSON, each whole even when the process is killed.
class Log {
 public:
  explicit Log(const std::string& path) : file_(path, std::ios::app) {}
  template <class... Arguments>
  void write(const char* event, fmt::format_string<Arguments...> more, Arguments&&... arguments) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    file_ << fmt::format(R"({{"event":"{}","t_s":{:.6f},"pid":{},)", event, now.count(), getpid()) +
                 fmt::format(more, std::forward<Arguments>(arguments)...) + "}\n"
          << std::flush;
  }

 private:
  std::ofstream file_;
};

// Returns options for the same mini-batches in the same order for any number of workers; each takes
// its share.
ffdl::LedgerOptions samples_of(const Options& options, uint64_t samples) {
  ffdl::LedgerOptions order;
  order.samples = samples;
  order.partition_samples = samples;
  order.epochs = options.epochs;
  order.seed = options.seed;
  order.shuffle = ffdl::Shuffle::kSamples;
  order.order = ffdl::SampleOrder::kGlobal;
  order.batch_samples = options.mini_batch;
  if (options.virtual_workers > 0) {
    order.micro_batch_samples = options.mini_batch / options.virtual_workers;
  }
  return order;
}

uint64_t steps_of(const Options& options, uint64_t samples) {
  return options.epochs * ((samples + options.mini_batch - 1) / options.mini_batch);
}

struct Loaded {
  digits::Split split{};  // of the digits
  std::unique_ptr<Model> model{};
};

Status load(const Options& options, Loaded& loaded) {
  const ModelOptions of_model{options.seed, options.learning_rate};
  if (options.task == "digits") {
    FFDL_ASSIGN_OR_RETURN(const auto all, digits::load_samples(options.data));
    FFDL_ASSIGN_OR_RETURN(loaded.split, digits::split_samples(all));
    loaded.model = digits_model(loaded.split, of_model);
  } else {
    FFDL_ASSIGN_OR_RETURN(auto corpus, nlc::load_corpus(options.data));
    const uint64_t steps = steps_of(options, corpus.train.size());
    loaded.model = nlc_model(std::move(corpus), of_model, steps);
  }
  return {};
}

ffdl::SessionOptions session_options(const ffdl::JobEnvironment& job) {
  ffdl::SessionOptions options;
  options.self.id = job.worker_id;
  options.membership = membership_options(job);
  // The launcher reports workers that end. This lease is for workers that a busy machine delays.
  options.membership.lease = std::chrono::seconds(5);
  return options;
}

class Worker {
 public:
  Worker(const Options& options, const ffdl::JobEnvironment& job)
      : options_(options), job_(job), log_(file("steps", "jsonl")) {}

  Status work() {
    Loaded loaded;
    FFDL_RETURN_IF_ERROR(load(options_, loaded));
    Model& model = *loaded.model;
    const ffdl::LedgerOptions order = samples_of(options_, model.samples());
    // In the folder of `ffdl run --ledger-log` if there is one, else beside the other files.
    const std::string log = job_.ledger_log.empty()
                                ? file(fmt::format("commits-{}", getpid()), "log")
                                : job_.ledger_log + "/" + job_.worker_id + ".commits";
    FFDL_ASSIGN_OR_RETURN(const auto commits, ffdl::CommitLog::open(log, order));
    ffdl::LedgerMemberOptions member;
    member.on_stable = [&](const ffdl::CommittedStep& step) { commits->write(step); };
    FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(order, member));
    FFDL_ASSIGN_OR_RETURN(const auto store, open_store(job_.store_url, ffdl::system_runtime(),
                                                       {.secret = job_.store_secret}));
    ffdl::SessionOptions of_session = session_options(job_);
    of_session.participants = {ledger->participant()};
    if (options_.virtual_workers > 0) {
      of_session.micro_batch_shares = [&] { return ledger->shares(); };
      of_session.micro_batch_samples = order.micro_batch_samples;
    }
    std::unique_ptr<ffdl::StragglerWatch> replacement;
    if (options_.straggler_factor > 0) {
      FFDL_ASSIGN_OR_RETURN(replacement, watch_stragglers(*store));
      of_session.participants.push_back(replacement.get());
    }
    log_.write("begin", R"("steps":{})", steps_of(options_, model.samples()));
    FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(of_session, model, *store));
    FFDL_ASSIGN_OR_RETURN(const bool has_left, train(*session, *ledger, model));
    if (has_left) {
      log_.write("left", R"("step":{})", session->step());
      return {};
    }
    FFDL_RETURN_IF_ERROR(session->finish());
    return end(*session, model);
  }

 private:
  std::string file(const std::string& name, const char* kind) const {
    return fmt::format("{}/{}-{}.{}", options_.out, name, job_.worker_id, kind);
  }

  Result<std::unique_ptr<ffdl::StragglerWatch>> watch_stragglers(ffdl::Store& store) {
    ffdl::StragglerOptions replacing;
    replacing.factor = options_.straggler_factor;
    replacing.on_straggler = [this](const ffdl::Straggler& slow) {
      log_.write("straggler", R"("step":{},"id":"{}","factor":{:.3f},"steps":{})", slow.step,
                 slow.member.id, slow.factor, slow.steps);
    };
    return ffdl::StragglerWatch::create_replacing(store, job_.job, replacing);
  }

  // Trains until all epochs are done (returns false), or until this worker has left the job.
  Result<bool> train(Session& session, SampleLedger& ledger, Model& model) {
    const auto pace = ffdl::system_runtime().make_event();  // never set
    while (!ledger.is_done()) {
      if (asked_to_end != 0) session.ask_to_leave();
      const ffdl::Time begin = ffdl::deadline_in({});
      FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take());
      FFDL_ASSIGN_OR_RETURN(const auto samples, ledger.sample_indices(ranges));
      FFDL_ASSIGN_OR_RETURN(const float loss, compute(session, model, samples));
      if (options_.hold_ms > 0 && std::filesystem::exists(options_.out + "/hold")) {
        pace->wait_until(begin + std::chrono::milliseconds(options_.hold_ms));
      }
      if (options_.straggler_factor > 0) log_.write("computed", R"("step":{})", session.step() + 1);
      FFDL_ASSIGN_OR_RETURN(const StepResult result, session.end_step());
      if (result == StepResult::kLeft) return true;
      if (result == StepResult::kRetryStep || result == StepResult::kHealed) continue;
      log_.write("step", R"("step":{},"generation":{},"workers":{},"samples":{},"loss":{:.6g})",
                 session.step(), session.world().generation, session.world().size(), samples.size(),
                 loss);
    }
    return false;
  }

  // Computes the gradient of this worker's share and returns the mean loss. It works at once, or in
  // parts that are added up: those of the virtual workers, or as large as memory allows.
  Result<float> compute(Session& session, Model& model, std::span<const uint64_t> samples) {
    const uint64_t part_max = options_.virtual_workers > 0
                                  ? options_.mini_batch / options_.virtual_workers
                                  : options_.micro_batch_max;
    if (part_max == 0) return model.compute(samples, session.step());
    float loss = 0;
    for (size_t begin = 0; begin < samples.size(); begin += part_max) {
      const auto part = samples.subspan(begin, std::min<size_t>(part_max, samples.size() - begin));
      loss += model.compute(part, session.step()) * static_cast<float>(part.size());
      FFDL_RETURN_IF_ERROR(session.add_micro_batch(part.size()));
    }
    return samples.empty() ? 0 : loss / static_cast<float>(samples.size());
  }

  Status end(const Session& session, Model& model) {
    const auto weights = std::as_bytes(model.weights());
    std::ofstream(file("weights", "bin"), std::ios::binary)
        .write(reinterpret_cast<const char*>(weights.data()),
               static_cast<std::streamsize>(weights.size()));
    log_.write("end", R"("step":{},"test_accuracy":{:.6f},"val_accuracy":{:.6f},"test_samples":{})",
               session.step(), model.test().accuracy, model.validate().accuracy,
               model.test_samples());
    return {};
  }

  const Options& options_;
  const ffdl::JobEnvironment& job_;
  Log log_;
};

Status run(const Options& options) {
  FFDL_ASSIGN_OR_RETURN(const auto job, ffdl::job_environment());
  if (job) return Worker(options, *job).work();
  return Status(ffdl::StatusCode::kInvalidArgument,
                "train: FFDL_STORE is not set; start this by 'ffdl run'");
}

}  // namespace
}  // namespace elastic

int main(int argc, char** argv) {
  elastic::Options options;
  CLI::App app("One worker of a job that trains; 'ffdl run' starts it.", "elastic_worker");
  app.add_option("task", options.task, "the data set and its model")
      ->check(CLI::IsMember({"digits", "nlc"}))
      ->required();
  app.add_option("--data", options.data, "digits.csv.gz or data_full.json: see the README")
      ->required();
  app.add_option("--out", options.out,
                 "a folder for the records of each worker and the final weights")
      ->check(CLI::ExistingDirectory)
      ->required();
  app.add_option("--epochs", options.epochs, "number of times that each sample is used")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--mini-batch", options.mini_batch, "samples per step, over all workers")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--virtual-workers", options.virtual_workers,
                 "parts of a mini-batch; with them the weights have the same bits whatever happens "
                 "to the workers. 0: each worker computes its share at once")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--micro-batch-max", options.micro_batch_max,
                 "samples that a worker computes at a time; 0: its whole share")
      ->check(CLI::Range(0, 4096))
      ->excludes("--virtual-workers")
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "learning rate of the first step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the first weights and of the order of samples")
      ->capture_default_str();
  app.add_option("--hold-ms", options.hold_ms,
                 "least milliseconds of a step while that folder has a file 'hold'")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  app.add_option("--replace-stragglers", options.straggler_factor,
                 "multiple of the median time above which a worker is replaced; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (options.virtual_workers > 0 && options.mini_batch % options.virtual_workers != 0) {
    fmt::print(stderr, "a mini-batch of {} has no {} equal parts\n", options.mini_batch,
               options.virtual_workers);
    return 2;
  }
  signal(SIGTERM, [](int) { elastic::asked_to_end = 1; });
  const ffdl::Status outcome = elastic::run(options);
  if (!outcome.ok()) fmt::print(stderr, "{}\n", outcome.to_string());
  return outcome.ok() ? 0 : 1;
}
