#include "benchmarks/rescale/trainer.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "ffdl/data/sample_ledger.h"

namespace ffdl::bench {
namespace {

constexpr int kWidth = 1000;
constexpr Duration kConnectPatience = std::chrono::seconds(60);
constexpr std::chrono::seconds kStartPatience(600);

// The steps of the training thread, for the thread that answers questions.
class History {
 public:
  void add(const StepTime& step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
    in_a_row_ = step.members == members_ ? in_a_row_ + 1 : 1;
    members_ = step.members;
    changed_.notify_all();
  }
  void wait_until(int members, int in_a_row) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return members_ == members && in_a_row_ >= in_a_row; });
  }
  std::vector<StepTime> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(steps_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StepTime> steps_;
  int members_ = 0;
  int in_a_row_ = 0;
};

// Answers questions until its input ends.
void answer_questions(History& history, Session& session) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "after") {
      int members = 0;
      int steps = 0;
      words >> members >> steps;
      history.wait_until(members, steps);
      answer("done");
    } else if (word == "report") {
      answer(write_steps(history.take()));
    } else if (word == "leave") {
      session.ask_to_leave();
      answer("asked");
    }
  }
}

}  // namespace

DenseModel::DenseModel(const Shape& shape)
    : net_(shape.layers, kWidth, shape.rows),
      weights_(net_.parameters() * sizeof(float)),
      momentum_(net_.parameters() * sizeof(float)),
      gradient_(net_.parameters() * sizeof(float)) {
  net_.initialise(weights_.floats());
}

std::vector<Buffer> DenseModel::state() {
  return {{weights_.floats().data(), weights_.floats().size()},
          {momentum_.floats().data(), momentum_.floats().size()}};
}

std::vector<Buffer> DenseModel::gradients() {
  return {{gradient_.floats().data(), gradient_.floats().size()}};
}

void DenseModel::apply() {
  float* const weights = weights_.floats().data();
  float* const momentum = momentum_.floats().data();
  const float* const gradient = gradient_.floats().data();
  for (size_t i = 0; i < weights_.floats().size(); ++i) {
    momentum[i] = 0.9F * momentum[i] + gradient[i];
    weights[i] -= 1e-6F * momentum[i];
  }
}

StartWorker trainers(const Shape& shape) {
  return [shape](const std::string& folder,
                 const std::string& id) -> Result<std::unique_ptr<Resident>> {
    FFDL_ASSIGN_OR_RETURN(auto process, Resident::start_self({"--role", "trainer", folder, id,
                                                              std::to_string(shape.layers),
                                                              std::to_string(shape.rows)}));
    FFDL_RETURN_IF_ERROR(process->ask("", kStartPatience).status());
    return process;
  };
}

Status play_trainer(const std::vector<std::string>& arguments) {
  const std::string& folder = arguments[0];
  const Shape shape = {std::stoi(arguments[2]), std::stoi(arguments[3])};
  std::ofstream audit(fmt::format("{}/audit-{}", folder, arguments[1]));
  const auto mini_batch = static_cast<uint64_t>(shape.rows);
  LedgerOptions samples;
  samples.samples = 64 * mini_batch;
  samples.partition_samples = 8 * mini_batch;
  samples.epochs = 0;
  LedgerMemberOptions member;
  member.on_stable = [&audit](const CommittedStep& step) {
    audit << step.step;
    for (const auto& part : step.parts) {
      audit << fmt::format(" {} {} {}", part.range.partition, part.range.begin, part.range.end);
    }
    audit << std::endl;  // flushed: it survives a kill
  };
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(samples, member));
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + folder, system_runtime()));
  DenseModel model(shape);
  model.compute();
  SessionOptions options;
  options.self.id = arguments[1];
  options.participants = {ledger->participant()};
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  answer("ready");
  History history;
  std::atomic<bool> is_over = false;  // relaxed: it carries no other data
  const std::jthread answers([&] {
    answer_questions(history, *session);
    is_over.store(true, std::memory_order_relaxed);
  });
  while (!is_over.load(std::memory_order_relaxed)) {
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take(mini_batch));
    if (!ranges.empty()) model.compute();
    StepTime step;
    step.generation = session->world().generation;
    step.members = session->world().size();
    Result<StepResult> result = StepResult::kContinue;
    step.in_session_s = seconds_of([&] { result = session->end_step(ledger->taken()); });
    step.end = std::chrono::steady_clock::now();
    FFDL_RETURN_IF_ERROR(result.status());
    history.add(step);
    if (*result == StepResult::kLeft) break;
  }
  return {};
}

Status play_twin(const std::vector<std::string>& arguments) {
  const std::string& folder = arguments[0];
  const int rank = std::stoi(arguments[1]);
  const World world = {.generation = 1, .rank = rank, .members = {{"0", 1}, {"1", 1}}};
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + folder, system_runtime()));
  FFDL_ASSIGN_OR_RETURN(const auto communicator,
                        connect_communicator(world, *store, deadline_in(kConnectPatience)));
  DenseModel model({std::stoi(arguments[2]), std::stoi(arguments[3])});
  SessionOptions options;
  options.self.id = arguments[1];
  options.membership.min_workers = 2;
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  answer("ready");
  const auto gradients = model.gradients();
  for (std::string line; std::getline(std::cin, line);) {
    FFDL_RETURN_IF_ERROR(communicator->barrier(deadline_in(kConnectPatience)));
    Status outcome;
    const double seconds = seconds_of([&] {
      model.compute();
      if (line == "session") {
        outcome = session->end_step(1).status();
      } else {
        outcome =
            communicator->all_reduce(gradients, ReduceOp::kMean, deadline_in(kConnectPatience));
        model.apply();
      }
    });
    FFDL_RETURN_IF_ERROR(Status(outcome));
    answer(fmt::format("{:.9f}", seconds));
  }
  return {};
}

}  // namespace ffdl::bench
