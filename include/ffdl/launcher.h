#pragma once

#include <cstdint>
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
namespace ffdl {

struct WorkerCommand {
  std::string name{};                      // of two that run at a time no two are alike
  std::vector<std::string> argv{};         // the program is looked for in PATH
  std::vector<std::string> environment{};  // "NAME=value", in place of or beside the launcher's own
  std::string folder{};                    // where it works; empty: where the launcher does
  // What it writes is added to this file. Empty: it goes where the launcher's own output goes, line
  // by line, each after "[name] ".
  std::string log_file{};
};

struct WorkerExit {
  std::string name{};
  int64_t process = 0;
  int exit_code = 0;
  int signal = 0;  // that killed it; 0: it ended by itself

  bool operator==(const WorkerExit&) const = default;
};

// Whatever starts processes: on this host, or through a cluster's own manager.
// Threads: all methods from any thread.
// Owns: the processes: its destructor kills and waits for them.
class FFDL_API Launcher {
 public:
  virtual ~Launcher() = default;

  // Returns the process's number. Blocks: until the program runs, or cannot.
  // Errors: kConflict (one of this name runs), kNotFound (no such program or folder),
  // kInvalidArgument (it is no program), kExhausted, kUnavailable.
  virtual Result<int64_t> start(const WorkerCommand& command) = 0;
  // Asks it to end by SIGTERM, and kills it and all that it has started by SIGKILL once `grace` has
  // passed; at once when that is zero. Does not wait for its end. Errors: kNotFound (none runs).
  virtual Status stop(std::string_view name, Duration grace) = 0;
  // The next end that was not told yet; none: wait for the event that announces them.
  virtual std::optional<WorkerExit> poll_exit() = 0;
};

// Processes of this host, each with what it starts in a process group of its own, whose rest is
// killed when the worker ends. They have no standard input. When this process is killed its workers
// are killed too, though not what those may have started.
// `exited` is set when an end can be polled, and must outlive the launcher.
// Threads: it has two: one that starts the workers and waits for them, one that passes their lines.
// Errors: kUnavailable (the system has no descriptor left).
FFDL_API Result<std::unique_ptr<Launcher>> make_local_launcher(Event& exited);

}  // namespace ffdl
