// Begins jobs at once on one store that a process serves over TCP.
//   jobs_at_once_test [--times N] [--jobs N]
// Each job has two workers, which are processes with the same ids in each job. They train to the
// end, N times over shared memory and N times over gloo. Each job must end finished in its first
// world, and no worker may meet another job's, or lose its peer. The first round that is otherwise
// ends the program with 1 and the logs of the workers.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/log.h"
#include "ffdl/membership.h"
#include "ffdl/session.h"
#include "ffdl/store.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/session_diary.h"
#include "support/small_model.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 2;
constexpr uint64_t kSamples = 320;
constexpr uint64_t kBatch = 8;  // of one worker
const std::string kSecret = "of this test";

// Words of a log that has seen another job's world, or the loss of a peer.
constexpr std::array<std::string_view, 5> kWrongWords = {
    "another process has begun it", "died, failed or left", "cannot be reached",
    "was not connected", "PeerLost"};

struct Round {
  std::string folder{};
  int jobs = 8;
  Backend backend = Backend::kShm;
  std::string url{};

  std::string log_of(int job, int worker) const {
    return fmt::format("{}/job-{}-worker-{}.log", folder, job, worker);
  }
};

std::string job_name(int job) { return fmt::format("job-{}", job); }

Result<std::unique_ptr<Store>> open_store_of(const Round& round) {
  return open_store(round.url, system_runtime(), {.secret = kSecret});
}

Status wrong(const std::string& why) { return Status(StatusCode::kInternal, why); }

Status train(const Round& round, int job, int worker) {
  testing::SmallModel model;
  LedgerOptions data;
  data.samples = kSamples;
  data.partition_samples = kSamples / 4;
  data.epochs = 1;
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(data));
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store_of(round));
  SessionOptions options;
  options.self.id = fmt::format("worker-{}", worker);
  options.participants = {ledger->participant()};
  options.membership.job = job_name(job);
  options.membership.min_workers = kWorkers;
  options.membership.lease = 10s;  // of a busy machine
  options.membership.gather = 1ms;
  options.membership.fence_after = 60s;
  options.communicator.backend = round.backend;
  options.verify_state = true;
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  while (!ledger->is_done()) {
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take(kBatch));
    model.compute(ranges.empty() ? 0 : ranges.front().begin);
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(ledger->taken()));
    if (result != StepResult::kContinue) {
      return wrong(
          fmt::format("step {} had the result {}", session->step(), static_cast<int>(result)));
    }
  }
  const World& world = session->world();
  if (world.generation != 1 || world.size() != kWorkers || world.job != job_name(job)) {
    return wrong(fmt::format("it ends in generation {} of job '{}' with {} members",
                             world.generation, world.job, world.size()));
  }
  FFDL_RETURN_IF_ERROR(session->finish());
  return session->is_finished() ? Status() : wrong("it has left an unfinished job");
}

int run_worker(const Round& round, int job, int worker) {
  ::setenv("FFDL_LOG", "info", 1);
  std::ofstream log(round.log_of(job, worker));
  set_log_sink([&](LogLevel, std::string_view line) { log << line << std::endl; });
  const Status ended = train(round, job, worker);
  set_log_sink(nullptr);
  log << (ended.ok() ? "finished" : ended.to_string()) << std::endl;
  return ended.ok() ? 0 : 1;
}

// Serves until it is killed; tells its URL.
int serve(const Round& round, int told) {
  const auto server = StoreServer::start(
      {.folder = round.folder + "/store", .address = "127.0.0.1:0", .secret = kSecret});
  if (!server.ok()) return 1;
  const std::string url = (*server)->url();
  if (write(told, url.data(), url.size()) != std::ssize(url)) return 1;
  ::close(told);
  while (true) ::pause();
}

// Returns 1 unless the store has the completion of each job and no more than that.
int check_store(const Round& round) {
  const auto store = open_store_of(round);
  if (!store.ok()) return 1;
  for (int job = 0; job < round.jobs; ++job) {
    const auto status = read_job(**store, job_name(job));
    if (!status.ok() || !status->completion) return 1;
    if (status->completion->step != kSamples / (kBatch * kWorkers)) return 1;
  }
  return 0;
}

class Child {
 public:
  template <class Body>
  explicit Child(const Body& body) : process_(testing::fork_child()) {
    if (process_ == 0) _exit(body());
  }
  ~Child() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    wait();
  }
  Child(Child&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  Child& operator=(Child&&) = delete;

  int wait() { return testing::exit_code(std::exchange(process_, -1)); }

 private:
  pid_t process_;
};

std::vector<std::string> problems_in(const std::string& path) {
  std::vector<std::string> problems;
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);) {
    for (const std::string_view words : kWrongWords) {
      if (line.find(words) != line.npos) problems.push_back(path + ": " + line);
    }
  }
  return problems;
}

std::string read_all(int fd) {
  std::array<char, 512> text{};
  const ssize_t got = read(fd, text.data(), text.size());
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

std::vector<std::string> run_round(Round& round) {
  std::array<int, 2> told{};
  std::array<int, 2> gate{};
  if (pipe2(told.data(), O_CLOEXEC) != 0) return {"no pipe"};
  const Child server([&] { return serve(round, told[1]); });
  ::close(told[1]);
  round.url = read_all(told[0]);
  ::close(told[0]);
  // Closed by all that have its other end, the gate opens.
  if (pipe2(gate.data(), O_CLOEXEC) != 0) return {"no pipe"};
  std::vector<Child> workers;
  for (int i = 0; i < round.jobs * kWorkers; ++i) {
    workers.emplace_back([&] {
      ::close(gate[1]);
      read_all(gate[0]);  // until the gate opens
      return run_worker(round, i / kWorkers, i % kWorkers);
    });
  }
  ::close(gate[1]);
  std::vector<std::string> problems;
  for (int i = 0; i < round.jobs * kWorkers; ++i) {
    const std::string log = round.log_of(i / kWorkers, i % kWorkers);
    const int code = workers[static_cast<size_t>(i)].wait();
    if (code != 0) problems.push_back(fmt::format("{}: its worker ended with {}", log, code));
    for (std::string& problem : problems_in(log)) problems.push_back(std::move(problem));
  }
  if (Child([&] { return check_store(round); }).wait() != 0) {
    problems.push_back("the store has not the completion of each job");
  }
  ::close(gate[0]);
  return problems;
}

void print_logs(const Round& round) {
  for (int i = 0; i < round.jobs * kWorkers; ++i) {
    const std::string path = round.log_of(i / kWorkers, i % kWorkers);
    fmt::print("--- {}\n", path);
    std::ifstream log(path);
    for (std::string line; std::getline(log, line);) fmt::print("{}\n", line);
  }
}

bool run_rounds(Backend backend, uint64_t times, int jobs) {
  const std::string name = backend == Backend::kShm ? "shared memory" : "gloo";
  const Time begun = deadline_in({});
  for (uint64_t time = 0; time < times; ++time) {
    const TempFolder folder;
    Round round = {.folder = folder.path(), .jobs = jobs, .backend = backend};
    const std::vector<std::string> problems = run_round(round);
    if (problems.empty()) continue;
    print_logs(round);
    for (const std::string& problem : problems) fmt::print("{}\n", problem);
    fmt::print("{}: time {} of {}: not well\n", name, time + 1, times);
    return false;
  }
  fmt::print("{}: {} jobs at once {} times, in {} s: each ended finished in its first world\n",
             name, jobs, times, (deadline_in({}) - begun) / 1s);
  std::fflush(stdout);
  return true;
}

int run(int argc, char** argv) {
  const uint64_t times = testing::argument(argc, argv, "--times", 10);
  const auto jobs = static_cast<int>(testing::argument(argc, argv, "--jobs", 8));
  bool is_well = run_rounds(Backend::kShm, times, jobs);
  is_well = run_rounds(Backend::kTcp, times, jobs) && is_well;
  return is_well ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) { return ffdl::run(argc, argv); }
