#pragma once

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fault/end_kill_check.h"
#include "fault/end_kill_job.h"

// Runs one job and disturbs its end.
namespace ffdl::end_kill {

// The store's answer, as the process that asked for it passes it to the parent.
struct Reading {
  bool has_completion = false;
  StateLabel completion{};
  bool has_checkpoint = false;
  uint64_t checkpoint_lineage = 0;
  uint64_t checkpoint_step = 0;
};

struct Board {
  std::array<Life, kLivesMax> lives;
  Reading reading;
};

// Counts the disturbances of all jobs and their outcomes.
struct Counts {
  uint64_t kills_before = 0;  // members that trained, or opened their session
  uint64_t kills_in = 0;      // within finish()
  uint64_t kills_after = 0;
  uint64_t kills_of_servers = 0;  // processes of the store's server; also counted above
  uint64_t kills_of_all = 0;
  uint64_t stops = 0;
  uint64_t long_stops = 0;
  uint64_t leaves = 0;
  uint64_t newcomers = 0;
  uint64_t restarts = 0;
  uint64_t late_openers = 0;  // newcomers and restarts after finish() of another had returned
  uint64_t finished = 0;
  uint64_t left = 0;
  uint64_t cancelled = 0;
  uint64_t job_done = 0;    // ended with kNotFound: the last state is lost
  uint64_t went_back = 0;   // finish() returned kWorldChanged
  uint64_t begun_anew = 0;  // jobs that began again from nothing
  uint64_t lineages = 0;    // jobs that ended in a later lineage than the first

  std::string describe() const;
};

class JobRun {
 public:
  JobRun(Plan plan, Board& board, Counts& counts, uint64_t seed);
  ~JobRun();
  // Returns all problems.
  std::vector<std::string> run();

 private:
  struct Process {
    Start start{};
    pid_t pid = 0;  // 0: it has ended
    Life* life = nullptr;
    bool is_stopped = false;
    EndedLife ended{};
  };
  struct Due {
    Time at;
    std::function<void()> act;
  };

  // --- processes ---
  void start(const std::string& id);
  void start_missing_members();
  void report_death(const std::string& id);
  void reap();
  void note_end(Process& process, int wait_status);
  void read_store();
  bool is_running(const std::string& id) const;
  std::vector<Process*> running();
  void end_all();
  void note(const Process& process, std::string_view what);

  // --- the choice of victims ---
  bool is_complete() const;
  bool is_settled(const Process& process) const;
  bool may_lose(const std::vector<Process*>& victims);
  std::vector<Process*> choose(Kind kind);
  Process* find_server();

  // --- disturbances ---
  bool has_come(const Disturbance& one) const;
  void look_for_moments();
  void act_when_possible(const Disturbance& one);
  bool act(const Disturbance& one);
  void kill_all(const Disturbance& one);
  void kill_one(Process& victim, const Disturbance& one);
  void stop(Process& victim, const Disturbance& one);
  void ask_to_leave(Process& victim);
  void add_newcomer();
  void count_kill(const Process& victim);
  void run_due();
  void after(Duration delay, std::function<void()> act);

  // --- the end ---
  void go_on_when_quiet();
  bool is_over() const { return is_over_; }
  void check();

  const Plan plan_;
  Board& board_;
  Counts& counts_;
  std::mt19937_64 random_;
  std::vector<Process> processes_;
  std::vector<Disturbance> pending_;  // disturbances before their moments
  std::vector<Due> due_;
  std::vector<std::string> again_after_end_;
  int next_number_ = 0;
  int reporters_ = 0;
  bool may_be_lost_ = false;  // the state: all members were killed or fenced
  bool is_over_ = false;
  Time last_event_{};
  std::ofstream journal_;
  std::vector<std::string> problems_;
};

}  // namespace ffdl::end_kill
