#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "ffdl/comm/communicator.h"
#include "hosts/hosts.h"

namespace ffdl::bench {

// A back end between hosts that is measured. `streams` is the number of its connections between two
// ranks: raw TCP is measured with as many.
struct MeasuredBackend {
  const char* name;
  Backend backend;
  bool tls;
  int streams;
  bool is_ours;  // has targets, and is measured beside gloo too
};
// All are measured beside raw TCP.
inline constexpr std::array kBackends = {
    MeasuredBackend{"tcp", Backend::kTcp, false, 1, true},
    MeasuredBackend{"tcp_tls", Backend::kTcp, true, 1, true},
    MeasuredBackend{"gloo", Backend::kGloo, false, 1, false},
};
inline constexpr int kStreamsMax = 8;

// Hosts, their links, and the ranks on each of them.
struct LaboratoryOptions {
  int hosts = 2;
  int ranks_per_host = 1;
  testing::LinkOptions link{};
  std::string congestion_control{};  // of TCP; empty: the kernel's default
};

// A process with hosts and their ranks, which sleep between their turns. A turn is one of these:
//   trips TIMES BYTES           BYTES over raw TCP from rank 0 to rank 1 and back
//   raw STREAMS TIMES BYTES     all ranks send BYTES to the next, over raw TCP
//   sum NAME TIMES BYTES        all_reduce of BYTES by the back end NAME
//   levels - TIMES BYTES        the same in two levels: shared memory on each host
// Threads: one.
// Owns: all processes.
// Blocks: take() until the turn is over, or for ten minutes.
class Laboratory {
 public:
  static Result<Laboratory> start(const LaboratoryOptions& options);
  // Returns the seconds at rank 0.
  Result<double> take(const std::string& line);
  Turn turn(std::string line) {
    return [this, line = std::move(line)] { return take(line); };
  }
  const LaboratoryOptions& options() const { return options_; }

 private:
  Laboratory(std::unique_ptr<Resident> process, const LaboratoryOptions& options)
      : process_(std::move(process)), options_(options) {}
  std::unique_ptr<Resident> process_;
  LaboratoryOptions options_;
};

// Returns the kernel's default congestion control of TCP.
std::string default_congestion_control();

// Runs as that process: `words` follow the name of the role.
int play_laboratory(const std::vector<std::string>& words);

}  // namespace ffdl::bench
