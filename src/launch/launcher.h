#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Starts and ends the processes of a job.
namespace ffdl::launch {

struct WorkerCommand {
  std::string name{};                      // unique among running processes
  std::vector<std::string> argv{};         // the program is searched in PATH
  std::vector<std::string> environment{};  // "NAME=value": replaces or extends the launcher's own
  std::string folder{};                    // working folder; empty: the launcher's
  // The file to which its output is appended. Empty: the launcher's own output, line by line, each
  // after "[name] ".
  std::string log_file{};
};

struct WorkerExit {
  std::string name{};
  int64_t process = 0;
  int exit_code = 0;
  int signal = 0;  // that killed it; 0: it ended by itself

  bool operator==(const WorkerExit&) const = default;
};

// Starts processes: on this host, or through a cluster's own manager.
// Threads: all methods from any thread.
// Owns: the processes: its destructor kills and waits for them.
class FFDL_API Launcher {
 public:
  virtual ~Launcher() = default;

  // Starts a process and returns its number. Blocks: until the program runs, or cannot.
  // Errors: kConflict (a process of this name runs), kNotFound (no such program or folder),
  // kInvalidArgument (not a program), kExhausted, kUnavailable.
  virtual Result<int64_t> start(const WorkerCommand& command) = 0;
  // Asks a process to end by SIGTERM. After `grace` kills it and all that it has started by
  // SIGKILL; at once if `grace` is zero. Does not wait for its end. Errors: kNotFound (none runs).
  virtual Status stop(std::string_view name, Duration grace) = 0;
  // Stops all processes by SIGSTOP with those that they have started, calls `meanwhile` with their
  // number, and lets them go on by SIGCONT. Until then no process starts, and no period of grace
  // passes. `meanwhile` must not call the launcher.
  using Meanwhile = std::function<void(size_t processes)>;
  virtual void suspend(const Meanwhile& meanwhile) = 0;
  // Returns the next exit that was not returned yet. None: wait for the event that announces them.
  virtual std::optional<WorkerExit> poll_exit() = 0;
};

// Creates a launcher for processes of this host. Each runs in its own process group with the
// processes that it starts; the rest of the group is killed when the worker ends. They have no
// standard input. When this process is killed its workers are killed, too, but not their children.
// `exited` is set when an exit can be polled, and must outlive the launcher.
// Threads: it has two: one starts the workers and waits for them, one forwards their output.
// Errors: kExhausted (the system has no descriptor or thread left).
FFDL_API Result<std::unique_ptr<Launcher>> make_local_launcher(Event& exited);

}  // namespace ffdl::launch
