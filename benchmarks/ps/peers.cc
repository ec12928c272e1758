#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/script.h"
#include "benchmarks/harness/team.h"
#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

constexpr int kWorkersMax = 2;

// A server and its learners, each with a private copy of the weights.
struct Workers {
  std::unique_ptr<ParameterServer> server;
  std::vector<std::unique_ptr<Learner>> learners;
  std::vector<Memory> weights;
};

Result<Workers> make_workers(int count, uint64_t parameters, int server_threads) {
  ParameterServerOptions options;
  options.parameters = parameters;
  options.rule = {.kind = UpdateRuleKind::kSgd, .learning_rate = 1e-6F};
  options.non_finite = NonFinite::kAccept;
  options.learners_max = count;
  options.threads = server_threads;
  Workers workers;
  FFDL_ASSIGN_OR_RETURN(workers.server, ParameterServer::create(options));
  FFDL_RETURN_IF_ERROR(workers.server->start());
  for (int i = 0; i < count; ++i) {
    FFDL_ASSIGN_OR_RETURN(auto learner, Learner::attach(*workers.server, deadline_in(kPatience)));
    for (int buffer = 0; buffer < 2; ++buffer) {
      FFDL_ASSIGN_OR_RETURN(const auto slot, learner->gradient_slot(deadline_in(kPatience)));
      std::ranges::fill(slot, 0.5F);
      FFDL_ASSIGN_OR_RETURN([[maybe_unused]] const double seconds, push_and_fold(*learner));
    }
    workers.learners.push_back(std::move(learner));
    workers.weights.emplace_back(parameters * sizeof(float));
  }
  return workers;
}

// The learner waits until its gradient is folded, as Hogwild must, or continues.
enum class Wait { kUntilFolded, kNever };

// Returns the best number of threads. Learners that wait leave the processors to the server; a fold
// below 1 MiB is too short for two threads.
int best_server_threads(Wait wait, uint64_t bytes) {
  return wait == Wait::kNever || bytes < 1U << 20 ? 1 : kWorkersMax;
}

Status push_and_pull(Learner& learner, const Memory& weights, int steps, Wait wait) {
  for (int i = 0; i < steps; ++i) {
    FFDL_RETURN_IF_ERROR(learner.gradient_slot(deadline_in(kPatience)).status());
    FFDL_RETURN_IF_ERROR(learner.push(Gradient::slot(), next_sample(learner)).status());
    if (wait == Wait::kUntilFolded) FFDL_RETURN_IF_ERROR(learner.flush(deadline_in(kPatience)));
    FFDL_RETURN_IF_ERROR(learner.pull(weights.floats()).status());
  }
  return {};
}

// Runs all learners at once, each on a thread of its own. The remaining gradients are folded off
// the clock.
Result<double> push_and_pull_all(Team& team, Workers& workers, int steps, Wait wait) {
  std::vector<Status> outcomes(workers.learners.size());
  const double seconds = seconds_of([&] {
    team.run([&](int member) {
      const auto i = static_cast<size_t>(member);
      outcomes[i] = push_and_pull(*workers.learners[i], workers.weights[i], steps, wait);
    });
  });
  for (Status& outcome : outcomes) FFDL_RETURN_IF_ERROR(std::move(outcome));
  for (auto& learner : workers.learners)
    FFDL_RETURN_IF_ERROR(learner->flush(deadline_in(kPatience)));
  return seconds;
}

void push_pull_rows(Suite& suite, int count, uint64_t bytes) {
  struct Row {
    std::string name;
    Wait wait;
    std::string what;
  };
  const std::string size = fmt::format("{}/{}", count, size_name(bytes));
  const Row rows[] = {
      {"ps/peers/hogwild_push_pull/" + size, Wait::kNever, ""},
      {"ps/peers/hogwild_applied/" + size, Wait::kUntilFolded, "wait until it is folded, "}};
  if (!suite.wants(rows[0].name) && !suite.wants(rows[1].name)) return;
  const uint64_t parameters = bytes / sizeof(float);
  auto hogwild = start_script({"hogwild.py", std::to_string(count), std::to_string(parameters)});
  const int steps = static_cast<int>(std::clamp<uint64_t>((8U << 20) / bytes, 1, 500));
  Team team(count);
  for (const Row& row : rows) {
    if (!suite.wants(row.name)) continue;
    const int threads = best_server_threads(row.wait, bytes);
    auto workers = make_workers(count, parameters, threads);
    if (!hogwild.ok()) {
      suite.missing(row.name, hogwild.status().to_string());
    } else if (!workers.ok()) {
      suite.failed(row.name, workers.status());
    } else {
      suite.measure(PairSpec{
          .name = row.name,
          .unit = "us",
          .figure = [steps](double seconds) { return seconds / steps * 1e6; },
          .subject = [&] { return push_and_pull_all(team, *workers, steps, row.wait); },
          .limit = [&] { return (*hogwild)->ask_number(std::to_string(steps)); },
          .limit_is =
              "PyTorch Hogwild: add_ to a shared tensor and copy_ from it, one thread per worker",
          .target = Target{1},
          .note = fmt::format(
              "{} workers, {} server threads, {} steps in a row; a step: gradient in place, "
              "push, {}copy the weights out",
              count, threads, steps, row.what)});
    }
  }
}

void train_row(Suite& suite, const std::string& peer, int mini_batch) {
  const std::string name = fmt::format("ps/peers/train/{}/{}", peer, mini_batch);
  if (!suite.wants(name)) return;
  const std::string workers = std::to_string(kWorkersMax);
  const std::string size = std::to_string(mini_batch);
  auto theirs = start_script({"train.py", peer, workers, size});
  if (!theirs.ok()) return suite.missing(name, theirs.status().to_string());
  auto ours = start_script({"train.py", "ffdl", workers, size});
  if (!ours.ok()) return suite.missing(name, ours.status().to_string());
  constexpr int kSteps = 4;
  const std::string steps = std::to_string(kSteps);
  suite.measure(PairSpec{
      .name = name,
      .unit = "samples/s",
      .figure = [=](double seconds) { return kWorkersMax * mini_batch * kSteps / seconds; },
      .subject = [&] { return (*ours)->ask_number(steps); },
      .limit = [&] { return (*theirs)->ask_number(steps); },
      .limit_is = fmt::format("PyTorch, {}",
                              peer == "ddp" ? "DistributedDataParallel over gloo" : "Hogwild"),
      .target = Target{1},
      .note = fmt::format(
          "{} worker processes of one thread each, the same PyTorch network of 10 MB; ours "
          "computes its gradients in the slot and has a server thread per worker",
          kWorkersMax)});
}

}  // namespace

void peer_rows(Suite& suite) {
  constexpr uint64_t sizes[] = {4U << 10, 64U << 10, 1U << 20, 16U << 20, 100U << 20, 256U << 20};
  if (suite.options().smoke) return;  // their libraries take longer to load than a smoke test may
  for (int workers = 1; workers <= kWorkersMax; ++workers) {
    for (const uint64_t bytes : sizes) push_pull_rows(suite, workers, bytes);
  }
  for (const char* peer : {"hogwild", "ddp"}) {
    for (int mini_batch : {1, 4, 16}) train_row(suite, peer, mini_batch);
  }
}

}  // namespace ffdl::bench
