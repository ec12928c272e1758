// Disturbs the ends of whole jobs of `ffdl run`: each ends with 0, finished once.
//   run_end_kill_test [--jobs N] [--seed S]
// Kills workers around their last steps, within finish() and after it; the supervisor starts them
// again. `ffdl scale` stops and starts workers then. Each job draws all of that from its own seed,
// S for the first one. The first job with a wrong end ends the program with 1.
//   run_end_kill_test --worker FOLDER SEED       runs one worker.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "fault/end_kill_check.h"
#include "fault/end_kill_job.h"
#include "ffdl/launch/environment.h"
#include "support/program.h"
#include "support/programs.h"
#include "support/sanitized.h"
#include "support/session_diary.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl::end_kill {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = FFDL_IS_SANITIZED ? 240s : 90s;
constexpr int kWorkers = 3;
constexpr int kRunning = -1;  // in place of an exit code

// State shared by the parent and the workers: a file that each of them maps.
struct RunBoard {
  std::atomic<int> begun;  // started workers, restarts included
  std::array<std::atomic<int>, kLivesMax> pids;
  std::array<std::atomic<int>, kLivesMax> exit_codes;
  std::array<std::atomic<bool>, kLivesMax> are_late;
  std::array<Life, kLivesMax> lives;
};

// Maps the board until the end of this process. The zeros of a new file are a valid new board.
RunBoard& map_board(const std::string& folder) {
  const int file = open((folder + "/board").c_str(), O_RDWR | O_CREAT, 0600);
  const bool is_sized = file >= 0 && ftruncate(file, sizeof(RunBoard)) == 0;
  void* const memory = mmap(nullptr, sizeof(RunBoard), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (!is_sized || memory == MAP_FAILED) std::abort();
  return *static_cast<RunBoard*>(memory);
}

int begun(const RunBoard& board) { return std::min(board.begun.load(), kLivesMax); }

template <class Is>
bool any_life(const RunBoard& board, Is is) {
  return std::any_of(board.lives.begin(), board.lives.begin() + begun(board), is);
}

bool is_complete(const RunBoard& board) {
  return any_life(board, [](const Life& life) { return life.stage == Stage::kFinished; });
}

// Returns the options of the job of a seed. Its workers draw the same ones.
JobOptions options_of(uint64_t seed, const std::string& folder) {
  JobOptions options = draw_plan(seed).options;
  options.folder = folder;
  options.members = kWorkers;
  options.min_workers = 1;
  return options;
}

// --- a worker ------------------------------------------------------------------------------------

Life* my_life = nullptr;

int work(const std::string& folder, uint64_t seed) {
  RunBoard& board = map_board(folder);
  const int place = board.begun++;
  if (place >= kLivesMax) return kWrong;
  const auto index = static_cast<size_t>(place);
  my_life = &board.lives[index];
  signal(SIGTERM, [](int) { my_life->must_leave = true; });
  const auto environment = job_environment();
  if (!environment.ok() || !*environment) {
    board.exit_codes[index] = kWrong;
    board.pids[index] = getpid();
    return kWrong;
  }
  const Start start = {(*environment)->worker_id, is_complete(board), seed + index, **environment};
  board.are_late[index] = start.is_late;
  board.exit_codes[index] = kRunning;
  board.pids[index] = getpid();
  const JobOptions options = options_of(seed, folder);
  const ExitCode code = run_member(options, start, *my_life);
  board.exit_codes[index] = code;
  return code == kFinished || code == kLeft || code == kJobDone ? 0 : code;
}

// --- the parent ----------------------------------------------------------------------------------

struct RunCounts {
  uint64_t kills_before = 0;
  uint64_t kills_in = 0;
  uint64_t kills_after = 0;
  uint64_t scalings = 0;
  uint64_t late_openers = 0;
};

class RunJob {
 public:
  RunJob(uint64_t seed, RunCounts& counts)
      : seed_(seed),
        counts_(counts),
        random_(seed),
        options_(options_of(seed, folder_.path())),
        board_(map_board(folder_.path())) {}

  bool run() {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    StartedProgram job(fmt::format("{} run --workers 1:{} --job {} -- {} --worker {} {}", command(),
                                   kWorkers, kJobName, program, folder_.path(), seed_),
                       folder_.file("out"));
    const uint64_t disturbances = 1 + random_() % 2;
    for (uint64_t done = 0; done < disturbances; ++done) disturb(job);
    if (!comes_true_within_patience([&] { return has_ended(job); })) {
      return fail("the job does not end", job);
    }
    const int code = job.wait();
    if (code != 0) return fail(fmt::format("the job ended with {}", code), job);
    return check(job);
  }

 private:
  std::string command() const {
    return fmt::format("env FFDL_LOG=info TMPDIR={} {}", folder_.path(), kFfdlProgram);
  }

  static bool has_ended(const StartedProgram& job) {
    siginfo_t info = {};
    const auto pid = static_cast<id_t>(job.process());
    return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
  }

  static bool comes_true_within_patience(const std::function<bool()>& condition) {
    const Time patience = deadline_in(kPatience);
    while (!condition()) {
      if (deadline_in({}) > patience) return false;
      std::this_thread::sleep_for(500us);
    }
    return true;
  }

  void disturb(const StartedProgram& job) {
    const uint64_t total = options_.samples * options_.epochs;
    const uint64_t committed = total * (60 + random_() % 41) / 100;
    const uint64_t moment = random_() % 5;
    const auto has_come = [&] {
      if (moment >= 3) return is_complete(board_);
      return any_life(board_, [&](const Life& life) {
        return moment == 0 ? life.committed >= committed : life.stage >= Stage::kFinishing;
      });
    };
    comes_true_within_patience([&] { return has_come() || has_ended(job); });
    std::this_thread::sleep_for(std::chrono::microseconds(50) * (1 << random_() % 11));
    if (has_ended(job)) return;
    if (random_() % 10 < 7) {
      kill_worker();
    } else {
      scale();
    }
  }

  void kill_worker() {
    std::vector<size_t> running;
    for (size_t i = 0; i < static_cast<size_t>(begun(board_)); ++i) {
      const bool runs = board_.pids[i] > 0 && board_.exit_codes[i] == kRunning && !was_killed_[i];
      if (runs) running.push_back(i);
    }
    if (running.empty()) return;
    const size_t victim = running[random_() % running.size()];
    const Stage stage = board_.lives[victim].stage;
    was_killed_[victim] = true;
    kill(board_.pids[victim], SIGKILL);
    if (stage < Stage::kFinishing) ++counts_.kills_before;
    if (stage == Stage::kFinishing) ++counts_.kills_in;
    if (stage == Stage::kFinished) ++counts_.kills_after;
  }

  // The job may end before the request arrives.
  void scale() {
    const uint64_t workers = 1 + random_() % kWorkers;
    run_program(fmt::format("{} scale {} {} 2>&1", command(), kJobName, workers));
    ++counts_.scalings;
  }

  bool check(const StartedProgram& job) {
    const JobStatus status = last_status(folder_.path());
    if (!status.completion) return fail("no record has a completion", job);
    if (!job.wrote(fmt::format("is done: its last step is {}", status.completion->step))) {
      return fail("the job does not name its last step", job);
    }
    const JobFindings findings = check_job(options_, ended_lives(), status);
    for (const std::string& problem : findings.problems) fail(problem, job);
    const auto again =
        run_program(fmt::format("{} run --workers 1 --job {} -- false 2>&1", command(), kJobName));
    const bool is_refused =
        again.exit_code == 0 && again.out.find("give --again") != again.out.npos;
    if (!is_refused) return fail("the job could be run again: " + again.out, job);
    return findings.problems.empty();
  }

  std::vector<EndedLife> ended_lives() {
    std::vector<EndedLife> all;
    for (size_t i = 0; i < static_cast<size_t>(begun(board_)); ++i) {
      const Life& life = board_.lives[i];
      EndedLife& one = all.emplace_back();
      one.id = fmt::format("worker {}", i);
      one.pid = board_.pids[i];
      // The supervisor may end a worker before it has said that it runs.
      one.was_killed = board_.pids[i] == 0 || board_.exit_codes[i] == kRunning;
      one.wait_status = one.was_killed ? SIGKILL : board_.exit_codes[i] << 8;
      one.was_asked_to_leave = life.must_leave;
      one.is_late = board_.are_late[i];
      one.applied = life.applied;
      one.last_step = life.last_step;
      one.last_hash = life.last_hash;
      if (one.is_late) ++counts_.late_openers;
    }
    return all;
  }

  bool fail(const std::string& problem, const StartedProgram& job) {
    fmt::print("{}\n--- run_end_kill_test --jobs 1 --seed {}: {}\n{}\n", job.output(), seed_,
               options_.describe(), problem);
    return false;
  }

  const uint64_t seed_;
  RunCounts& counts_;
  std::mt19937_64 random_;
  const TempFolder folder_;
  const JobOptions options_;
  RunBoard& board_;
  std::array<bool, kLivesMax> was_killed_{};
};

int run(int argc, char** argv) {
  const uint64_t jobs = testing::argument(argc, argv, "--jobs", 5);
  const uint64_t seed = testing::argument(argc, argv, "--seed", std::random_device()());
  RunCounts counts;
  uint64_t done = 0;
  while (done < jobs && RunJob(seed + done, counts).run()) ++done;
  fmt::print(
      "seed {}: {} of {} jobs of ffdl run ended with 0, finished once: {} kills before, {} in and "
      "{} after finish(), {} scalings, {} workers that began after the end: {}\n",
      seed, done, jobs, counts.kills_before, counts.kills_in, counts.kills_after, counts.scalings,
      counts.late_openers, done == jobs ? "well" : "not well");
  return done == jobs ? 0 : 1;
}

}  // namespace
}  // namespace ffdl::end_kill

int main(int argc, char** argv) {
  if (argc == 4 && argv[1] == std::string_view("--worker")) {
    return ffdl::end_kill::work(argv[2], std::stoull(argv[3]));
  }
  return ffdl::end_kill::run(argc, argv);
}
