#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/script.h"
#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/series.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/runtime.h"
#include "ffdl/store.h"

// './dev bench python': the cost, for a PyTorch program, of averaging its gradients and counting
// its samples.
namespace ffdl::bench {
namespace {

constexpr int kWorkers = 2;
constexpr int kMillions[] = {1, 10, 25};

// A comparison that peers/ddp.py knows.
struct Comparison {
  std::string row;
  std::string subject;
  std::string limit;
  std::string limit_is;
  std::vector<int> mini_batches = {1, 4, 16};
};

struct Cell {
  int millions;
  int mini_batch;
};

// Returns a target if the two differ in nothing but communication. Other rows are only reported.
std::optional<Target> target_of(const Comparison& comparison, Cell cell) {
  if (comparison.subject == "elastic") return Target{0.85};
  if (comparison.limit != "noop") return std::nullopt;
  return Target{cell.millions >= 10 && cell.mini_batch == 16 ? 0.95 : 0.90};
}

Result<std::unique_ptr<Resident>> start(const std::string& kind, Cell cell) {
  return start_script({"ddp.py", kind, std::to_string(kWorkers),
                       std::to_string(cell.millions * 1'000'000), std::to_string(cell.mini_batch)});
}

void row(Suite& suite, const Comparison& comparison, Cell cell) {
  const std::string name =
      fmt::format("python/{}/{}M/{}", comparison.row, cell.millions, cell.mini_batch);
  if (!suite.wants(name)) return;
  auto subject = start(comparison.subject, cell);
  if (!subject.ok()) return suite.missing(name, subject.status().to_string());
  auto limit = start(comparison.limit, cell);
  if (!limit.ok()) return suite.missing(name, limit.status().to_string());
  const int steps = std::max(1, 16 / cell.millions);
  const std::string turn = std::to_string(steps);
  const PairSpec spec{
      .name = name,
      .unit = "ms",
      .figure = [steps](double seconds) { return seconds / steps * 1e3; },
      .subject = [&] { return (*subject)->ask_number(turn); },
      .limit = [&] { return (*limit)->ask_number(turn); },
      .limit_is = comparison.limit_is,
      .target = target_of(comparison, cell),
      .note =
          fmt::format("a step of {} processes of one thread each, {} in a row: four layers, SGD, "
                      "zero_grad(set_to_none=True), gradient_as_bucket_view=True",
                      kWorkers, steps)};
  suite.measure(spec);
  if (comparison.limit == "noop" && cell.millions == 1 && cell.mini_batch == 1) {
    suite.self_check(spec);
  }
}

// A kind of samples that peers/loader.py knows.
struct Samples {
  const char* name;
  int bytes;
  int mini_batch;
  int batches;  // in a turn
};

void loader_row(Suite& suite, const Samples& samples, int workers) {
  const std::string name = fmt::format("python/loader_vs_dataloader/{}/{}", samples.name, workers);
  if (!suite.wants(name)) return;
  const auto start_loader = [&](const char* kind) {
    return start_script({"loader.py", kind, std::to_string(samples.bytes),
                         std::to_string(samples.mini_batch), std::to_string(workers)});
  };
  auto subject = start_loader("ffdl");
  if (!subject.ok()) return suite.missing(name, subject.status().to_string());
  auto limit = start_loader("torch");
  if (!limit.ok()) return suite.missing(name, limit.status().to_string());
  const std::string turn = std::to_string(samples.batches);
  suite.measure(
      {.name = name,
       .unit = "us",
       .figure = [&](double seconds) { return seconds / samples.batches * 1e6; },
       .subject = [&] { return (*subject)->ask_number(turn); },
       .limit = [&] { return (*limit)->ask_number(turn); },
       .limit_is = "DataLoader with persistent_workers, in the same session",
       .target = Target{1.0},
       .note = fmt::format("a batch of {} samples of {} bytes and a step of one worker, {} "
                           "processes that load, {} batches in a row",
                           samples.mini_batch, samples.bytes, workers, samples.batches)});
}

// Measures a world of one, where an all_reduce costs only the overhead of a call.
Status binding_row(Suite& suite) {
  const std::string name = "python/binding_us";
  if (!suite.wants(name)) return {};
  const auto script = start_script({"binding.py"});
  if (!script.ok()) {
    suite.missing(name, script.status().to_string());
    return {};
  }
  constexpr int kCalls = 20'000;
  World world;
  world.generation = 1;
  world.members = {{"a", 1}};
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("mem://", system_runtime()));
  const auto soon = [] { return deadline_in(std::chrono::seconds(30)); };
  FFDL_ASSIGN_OR_RETURN(const auto communicator, connect_communicator(world, *store, soon()));
  suite.measure(ValueSpec{
      .name = name,
      .unit = "us",
      .sample = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const double python, (*script)->ask_number(std::to_string(kCalls)));
        Status status;
        float value = 1;
        const double here = seconds_of([&] {
          for (int i = 0; i < kCalls && status.ok(); ++i) {
            status = communicator->all_reduce({&value, 1, DType::kFloat32}, ReduceOp::kSum, soon());
          }
        });
        FFDL_RETURN_IF_ERROR(status);
        return (python - here) / kCalls * 1e6;
      },
      .target = Target{3, true},
      .note = "an all_reduce of 4 bytes in a world of one, in Python longer than in C++"});
  return {};
}

// Measures how long the remaining workers pause when workers of ffdl.torch.elastic join and leave.
void pause_rows(Suite& suite) {
  const std::string pauses =
      "time inside trainer.step() and batches() of the worst step, less the mean of 50 undisturbed "
      "ones; ten layers, SGD with momentum, mini-batches of 48";
  const auto name = [](const char* row) { return fmt::format("python/elastic_{}/80MB", row); };
  const Series series = {.start_worker = [](const std::string& folder, const std::string& id) {
    return start_script({"elastic.py", folder, id, "10", "48"});
  }};
  AuditResult audits;
  series_rows(
      suite, series, End::kLeaves,
      {pause_row(name("out_stop_ms"), 15, "1 to 2 workers: " + pauses),
       pause_row(name("in_stop_ms"), 5, "2 to 1 workers, one leaves"),
       pause_row(name("no_event_stop_ms"), std::nullopt,
                 "the worst of 11 of the undisturbed steps with 2 workers")},
      [](const Cycle& cycle) {
        return std::vector<double>{cycle.out.stop_ms, cycle.back.stop_ms, cycle.calm.stop_ms};
      },
      audits);
  series_rows(
      suite, series, End::kKilled,
      {pause_row(name("kill_stop_ms"), 20,
                 "SIGKILL of one of 2 workers; the gradients that are computed again are "
                 "not in it")},
      [](const Cycle& cycle) { return std::vector<double>{cycle.back.stop_ms}; }, audits);
  if (audits.steps == 0) return;
  suite.measure(ValueSpec{.name = "python/elastic_samples_lost_or_repeated",
                          .sample =
                              [&audits] {
                                return static_cast<double>(audits.samples_lost +
                                                           audits.samples_repeated +
                                                           audits.steps_lost);
                              },
                          .samples = 1,
                          .warm_up = 0,
                          .target = Target{0, true},
                          .note = fmt::format("of {} steps of those jobs", audits.steps)});
}

void rows(Suite& suite) {
  if (suite.options().smoke) return;  // PyTorch takes longer to load than a smoke test may
  for (const Samples& samples : {Samples{"64B", 64, 32, 256}, Samples{"100KB", 100'000, 16, 64}}) {
    for (const int workers : {0, 2}) loader_row(suite, samples, workers);
  }
  if (const Status status = binding_row(suite); !status.ok()) {
    suite.failed("python/binding_us", status);
  }
  pause_rows(suite);
  const std::string ideal = "the same loop without DistributedDataParallel";
  const Comparison comparisons[] = {
      {"elastic_vs_ideal", "elastic", "ideal", "the same loop of one process, without elastic()"},
      {"overlap", "elastic_overlap", "elastic_late", "elastic() with overlap=False", {4}},
      {"ddp_vs_ddp_noop", "ffdl", "noop", "DDP with a hook that communicates nothing"},
      {"ddp_vs_ideal", "ffdl", "ideal", ideal},
      {"gloo_vs_ideal", "gloo", "ideal", ideal}};
  for (const Comparison& comparison : comparisons) {
    for (const int millions : kMillions) {
      for (const int mini_batch : comparison.mini_batches) {
        row(suite, comparison, {millions, mini_batch});
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--role") {  // the program is the store of a job
    return ffdl::bench::play_store_server(argv[3]).ok() ? 0 : 1;
  }
  return ffdl::bench::Suite::run("python", argc, argv, ffdl::bench::rows);
}
