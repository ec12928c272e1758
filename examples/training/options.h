#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/ps/parameter_server.h"

namespace training {

struct Example;
class Task;

// The values of TrainOptions::device.
inline constexpr const char* kCpu = "cpu";
inline constexpr const char* kCuda = "cuda";

// The user's options of a run; see the help of `train`.
struct TrainOptions {
  int learners = 2;
  int mini_batch = 16;
  std::string rule = "adam";
  float learning_rate = 0;  // 0: the rule's default, until the command line is read
  int epochs = 60;
  uint64_t seed = 1;
  std::string synchrony = "async";
  uint32_t staleness = 4;
  int threads = 1;
  std::string device = kCpu;
  bool json = false;
  bool kill = false;
  std::string data{};
  std::string out{};  // folder of run.jsonl
};

// The three roles of this program. The supervisor starts all others.
enum class Role { kTrain, kServer, kLearner };

struct Invocation {
  Role role = Role::kTrain;
  TrainOptions options;
  // From the supervisor to its children.
  std::string segment;
  pid_t parent = 0;
  int slot = 0;        // kLearner
  bool adopt = false;  // kServer: take over the segment of a dead server
};

// Parses the command line. On an error or a request for help it prints the message and ends the
// process.
Invocation parse_command_line(const Example& example, int argc, char** argv);

// Returns the arguments that make parse_command_line() in a child return `invocation`.
std::vector<std::string> command_line(const Invocation& invocation);

ffdl::ParameterServerOptions server_options(const Invocation& invocation, const Task& task);

}  // namespace training
