#include "benchmarks/training/checkpoint_twin.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/trainer.h"

namespace ffdl::bench {
namespace {

constexpr uint64_t kEvery = 10;

// A member of one job.
struct Job {
  explicit Job(const Shape& shape) : model(shape) {}

  Status open(const std::string& name, const std::string& id, Store& store,
              const CheckpointOptions& checkpoints) {
    SessionOptions options;
    options.self.id = id;
    options.membership.job = name;
    options.membership.min_workers = 2;
    options.checkpoints = checkpoints;
    FFDL_ASSIGN_OR_RETURN(session, Session::open(options, model, store));
    return steps(kEvery - 1);  // so that the next one is the one with a checkpoint
  }
  Status steps(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      model.compute();
      FFDL_RETURN_IF_ERROR(session->end_step(1).status());
    }
    return {};
  }
  // Nothing is written any more.
  void wait(uint64_t checkpoints) const {
    const auto done = [&] {
      const SessionStats stats = session->stats();
      return stats.checkpoints + stats.dropped_checkpoints >= checkpoints;
    };
    const auto never = system_runtime().make_event();
    while (!done()) never->wait_until(deadline_in(std::chrono::milliseconds(1)));
  }

  DenseModel model;
  std::unique_ptr<Session> session;
};

// What the thread that writes has used of the processors since it began.
double writer_cpu_seconds() {
  double seconds = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    uint64_t ns = 0;
    if (name == "ffdl-checkpoint") std::ifstream(task.path() / "schedstat") >> ns;
    seconds += 1e-9 * static_cast<double>(ns);
  }
  return seconds;
}

}  // namespace

Status play_checkpoint_twin(const std::vector<std::string>& arguments) {
  const std::string& folder = arguments[0];
  const std::string& id = arguments[1];
  const Shape shape = {std::stoi(arguments[2]), std::stoi(arguments[3])};
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + folder, system_runtime()));
  Job bare(shape);
  Job with(shape);
  CheckpointOptions checkpoints;
  checkpoints.folder = folder + "/checkpoints";
  checkpoints.every_steps = kEvery;
  checkpoints.keep_last = 1;
  FFDL_RETURN_IF_ERROR(bare.open("bare", id, *store, {}));
  FFDL_RETURN_IF_ERROR(with.open("with", id, *store, checkpoints));
  answer("ready");
  uint64_t taken = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "cpu") {
      answer(std::to_string(writer_cpu_seconds()));
      continue;
    }
    Job& job = line == "with" ? with : bare;
    Status outcome;
    const double seconds = seconds_of([&] { outcome = job.steps(kEvery); });
    FFDL_RETURN_IF_ERROR(std::move(outcome));
    if (line == "with") {
      with.wait(++taken);
      FFDL_RETURN_IF_ERROR(with.session->checkpoint_status());
    }
    answer(std::to_string(seconds));
  }
  return {};
}

}  // namespace ffdl::bench
