#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "elastic/state/state_copy.h"
#include "fault/end_kill_job.h"
#include "ffdl/log.h"
#include "ffdl/session.h"
#include "membership/keys.h"
#include "support/forwarding_store.h"
#include "support/session_diary.h"

namespace ffdl::end_kill {
namespace {

using namespace std::chrono_literals;
using testing::Diary;
using testing::DiaryModel;

constexpr uint64_t kBatch = 8;
constexpr size_t kElements = 500;

// Writes each world record that this process put into the store to a file. A line has its revision
// and text.
class WorldLog final : public testing::ForwardingStore {
 public:
  WorldLog(Store& inner, const std::string& path)
      : ForwardingStore(inner), key_(membership::Keys(kJobName).world()), file_(path) {}

  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    const auto put = inner_.compare_and_put(key, expected, value, lease);
    if (!put.ok() || key != key_) return put;
    const std::lock_guard lock(mutex_);
    file_ << fmt::format("{} {}\n", *put, value) << std::flush;
    return put;
  }

 private:
  const std::string key_;
  std::mutex mutex_;
  std::ofstream file_;
};

class MemberProgram {
 public:
  MemberProgram(const JobOptions& options, const Start& start, Life& life)
      : options_(options),
        start_(start),
        life_(life),
        suffix_(fmt::format("{}-{}", start.id, getpid())),
        random_(start.seed) {}

  ExitCode run() {
    log_.open(path(kLogPrefix));
    set_log_sink([this](LogLevel, std::string_view line) { log(line); });
    const Result<ExitCode> ended = train();
    if (ended.ok()) return *ended;
    log(ended.status().to_string());
    const StatusCode code = ended.status().code();
    if (code == StatusCode::kCancelled) return kCancelled;
    if (code == StatusCode::kNotFound) return kJobDone;
    return kWrong;
  }

 private:
  void log(std::string_view line) { log_ << log_time() << ' ' << line << std::endl; }
  std::string path(std::string_view prefix) const {
    return fmt::format("{}/{}{}", options_.folder, prefix, suffix_);
  }

  Result<std::unique_ptr<Store>> open_store_of_job() const {
    const auto& given = start_.environment;
    StoreOptions options = {.operation_timeout = kStoreWait};
    if (!given) return open_store("tcp://" + options_.folder + "/store", system_runtime(), options);
    options.secret = given->store_secret;
    return open_store(given->store_url, system_runtime(), options);
  }

  SessionOptions session_options(const DiaryModel& model, SampleLedger& ledger) const {
    SessionOptions options;
    options.self.id = start_.id;
    options.participants = {ledger.participant()};
    options.membership.job = kJobName;
    options.membership.min_workers = options_.min_workers;
    if (start_.environment) {
      options.membership.takes_over_from = start_.environment->takes_over_from;
    }
    options.membership.recovery = options_.recovery;
    options.membership.lease = options_.lease;
    options.membership.heartbeat = options_.lease / 8;
    options.membership.gather = 50ms;
    options.membership.fence_after = kFence;
    options.membership.fence_margin = kFence / 50;
    options.membership.step_timeout = 10s;
    options.operation_timeout = 20s;
    options.recovery_timeout = 20s;
    options.bucket_bytes = options_.bucket_bytes;
    options.shared_memory = model.shared_memory();
    if (!options_.has_checkpoints) return options;
    options.checkpoints.folder = options_.folder + "/checkpoints";
    options.checkpoints.every_steps = options_.every_steps;
    options.checkpoints.at_end = options_.at_end;
    return options;
  }

  Result<ExitCode> train() {
    FFDL_ASSIGN_OR_RETURN(Diary diary,
                          testing::open_diary(options_.folder, suffix_, data_of(options_)));
    FFDL_ASSIGN_OR_RETURN(const auto ledger, testing::make_ledger(data_of(options_), diary));
    FFDL_ASSIGN_OR_RETURN(const auto store, open_store_of_job());
    WorldLog world_log(*store, path(kWorldsPrefix));
    DiaryModel model(kElements, diary);
    auto opened = Session::open(session_options(model, *ledger), model, world_log);
    FFDL_RETURN_IF_ERROR(Status(opened.status()));
    Session& session = **opened;
    life_.incarnation = session.self().incarnation;
    if (start_.is_late && !session.is_finished()) return wrong("a late opener is not finished");
    const auto ended = train_and_finish(session, *ledger, model, diary);
    life_.applied = model.applied();
    if (ended.ok() && *ended == kFinished) tell_end(session, model);
    return ended;
  }

  Result<ExitCode> train_and_finish(Session& session, SampleLedger& ledger, DiaryModel& model,
                                    Diary& diary) {
    while (true) {
      life_.stage = Stage::kTraining;
      if (life_.began == 0)
        life_.began = std::chrono::steady_clock::now().time_since_epoch().count();
      FFDL_ASSIGN_OR_RETURN(const bool has_left, train_epochs(session, ledger, model, diary));
      if (has_left && !session.is_finished()) return kLeft;
      life_.stage = Stage::kFinishing;
      const Status finished = session.finish();
      if (finished.code() == StatusCode::kWorldChanged) {
        ++life_.went_back;
        continue;
      }
      FFDL_RETURN_IF_ERROR(Status(finished));
      return session.is_finished() ? kFinished : kLeft;
    }
  }

  // Trains until all epochs are done. Returns true if end_step() returned kLeft.
  Result<bool> train_epochs(Session& session, SampleLedger& ledger, DiaryModel& model,
                            Diary& diary) {
    while (!ledger.is_done()) {
      if (life_.must_leave) session.ask_to_leave();
      FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take(kBatch));
      FFDL_ASSIGN_OR_RETURN(const StepResult result, make_step(session, ledger, model, ranges));
      if (result == StepResult::kLeft) return true;
      diary.hashes[session.step()] = elastic::hash_of(model.state(), {});
      life_.generation = session.world().generation;
      life_.incarnation = session.self().incarnation;  // another one after the fence
      life_.committed = ledger.epoch() * options_.samples + ledger.committed();
      ++life_.steps;
    }
    return false;
  }

  Result<StepResult> make_step(Session& session, const SampleLedger& ledger, DiaryModel& model,
                               const std::vector<SampleRange>& ranges) {
    uint64_t position = 0;
    for (const SampleRange& range : ranges) position += range.partition * 1000 + range.begin;
    std::uniform_real_distribution<double> share;
    std::this_thread::sleep_for(options_.step_time * share(random_));
    model.compute_half(position, 0);
    if (options_.bucket_bytes > 0) {
      FFDL_RETURN_IF_ERROR(session.begin_average(1, ledger.taken()));
    }
    model.compute_half(position, 1);
    return session.end_step(ledger.taken());
  }

  // Uses the trained state before the end, as a program does.
  void tell_end(const Session& session, DiaryModel& model) {
    life_.incarnation = session.self().incarnation;
    life_.last_step = session.step();
    life_.last_hash = elastic::hash_of(model.state(), {});
    life_.stage = Stage::kFinished;
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 20));
  }

  Status wrong(const std::string& why) const { return Status(StatusCode::kInternal, why); }

  const JobOptions& options_;
  const Start& start_;
  Life& life_;
  const std::string suffix_;
  std::ofstream log_;
  std::minstd_rand random_;
};

}  // namespace

ExitCode run_member(const JobOptions& options, const Start& start, Life& life) {
  return MemberProgram(options, start, life).run();
}

}  // namespace ffdl::end_kill
