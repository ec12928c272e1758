#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/memory_placement.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"
#include "ffdl/update_rule.h"

// A parameter server for one host (GaDei, arXiv 1611.06213): weights, optimizer state and the
// gradients of all learners live in one shared-memory segment. Learners are processes or threads
// that attach and detach at any time. A gradient and the samples that made it are committed
// together, once, by one store; kill -9 of any learner or of the server, at any instruction,
// neither loses nor repeats a committed gradient. docs/protocol-ps.md has the protocol.
namespace ffdl {

// How far learners may drift apart.
enum class Synchrony : uint32_t {
  kAsync,  // ASGD: nobody waits for anybody
  kStale,  // SSP: waits while more than `staleness` mini-batches ahead of the slowest
  kBulk,   // BSP: one update per round, with the mean of one mini-batch of every learner
};

// What a learner does with a gradient that holds NaN or Inf. It decides before it publishes.
enum class NonFinite : uint32_t {
  kReject,  // push fails with kInvalidArgument; nothing is committed
  kSkip,    // the samples are committed and counted as skipped, the gradient is dropped
  kAccept,  // not looked at: saves one pass over the gradient
};

// What the elements of gradients are while they travel; weights and sums stay float32. 16-bit
// gradients need half of the memory and of its bandwidth. They are rounded when they are pushed,
// and again at each addition while the server is late.
enum class GradientType : uint32_t {
  kFloat32,
  kBFloat16,
  kFloat16,  // up to 65504: what is larger counts as not finite
};

struct ParameterServerOptions {
  std::string name{};        // letters, digits, '.', '-', '_'; empty: anonymous, for threads
  uint64_t parameters = 0;   // number of float32 weights
  UpdateRuleOptions rule{};  // not used when create() is given a rule of your own
  LearningRateSchedule schedule{};
  float clip_value = 0;  // clamp gradient elements to [-clip_value, clip_value]; 0: off
  float clip_norm = 0;   // scale a mini-batch's gradient to at most this 2-norm; 0: off
  NonFinite non_finite = NonFinite::kReject;
  Synchrony synchrony = Synchrony::kAsync;
  uint32_t staleness = 0;    // kStale only
  int threads = 1;           // server threads; each owns one shard of the weights
  int learners_max = 16;     // slots, 1 to 254
  uint32_t partitions = 0;   // of the data set, for the ledger; 0: as many as learners_max
  uint32_t ranges_max = 64;  // sample ranges that one gradient can name (neighbours merge)
  GradientType gradient_type = GradientType::kFloat32;
  uint32_t rows_max = 0;  // rows and parts that one sparse gradient can touch, with those
                          //   added to it while the server is late; 0: dense ones only
  Placement placement = Placement::kAuto;  // of memory and threads on NUMA nodes
  // The GPU that folds, as CUDA counts them; -1: the one that the calling thread uses. It keeps
  // weights and state in its memory too, and takes all dense gradients that wait as one batch, with
  // the bits of the processor (docs/gpu.md). Not with kBulk or a rule of your own.
  std::optional<int> device{};
};

// What one learner has done, all incarnations of its slot together.
struct LearnerProgress {
  int slot = 0;
  bool attached = false;
  int64_t pid = 0;            // in the learner's own pid namespace; 0 when never used
  uint32_t incarnation = 0;   // how often the slot was attached
  uint64_t published = 0;     // gradients published, the slot's sequence number
  uint64_t folded = 0;        // of these, folded into all shards
  uint64_t mini_batches = 0;  // folded; >= folded gradients, as late ones are added up
  uint64_t skipped = 0;       // mini-batches skipped for NaN or Inf
  uint64_t samples = 0;       // folded or skipped
};

// The ledger of one partition. Every sample once: samples == committed, repeated == missing == 0
// (for a partition that starts at sample 0).
struct PartitionProgress {
  uint64_t committed = 0;  // the first position that is not committed
  uint64_t samples = 0;
  uint64_t repeated = 0;  // positions that came again
  uint64_t missing = 0;   // positions that were jumped over
};

struct ParameterServerStats {
  uint64_t version = 0;  // gradients folded by the slowest shard; never goes back
  uint64_t epoch = 0;    // 1 for the creator, one more for every successor
  bool server_alive = false;
  int64_t server_pid = 0;
  uint64_t recoveries = 0;                // interrupted folds that a successor finished
  uint64_t learners_reclaimed = 0;        // learners that died attached
  std::vector<LearnerProgress> learners;  // slots that were ever used
  std::vector<PartitionProgress> partitions;
  // staleness[0]: gradients computed from the newest weights; staleness[b]: those for which
  // 2^(b-1) to 2^b - 1 other gradients had been folded since their learner pulled.
  std::array<uint64_t, 32> staleness{};
  MemoryPlacement memory;       // `note` and `threads_bound` are known to the server alone
  std::optional<int> device{};  // the GPU that folds; known to the server alone
};

enum class PullMode {
  kRelaxed,   // a plain copy; other learners' gradients may be half in it (Hogwild)
  kSnapshot,  // each shard as it was between two updates; waits for the shard's current
              //   fold, at most 10 s (a dead or stopped server: kTimeout)
};

// A consistent state of the whole server: every shard folded exactly to the same gradients.
struct ParameterServerCut {
  uint64_t version = 0;
  uint64_t updates = 0;  // version, or rounds with Synchrony::kBulk
  std::string rule;
  std::vector<float> weights;
  std::vector<std::vector<float>> state;  // one per value that the rule keeps
  std::vector<PartitionProgress> partitions;

  // Writes the cut atomically (temporary name, fsync, rename), with a checksum.
  FFDL_API Status save(const std::string& path) const;
  // Errors: kNotFound, kCorrupt (torn or changed file).
  FFDL_API static Result<ParameterServerCut> load(const std::string& path);
};

// The server. create() and adopt() take the segment's owner lock; start() runs the threads.
// Threads: stats(), cut() and version() from any thread; the rest from one thread at a time.
// Owns: the segment. The destructor stops the threads and removes the name; a killed server leaves
//       the segment for adopt().
// Blocks: stop() until the gradients published so far are folded.
// Errors: kConflict (name in use, or its server lives), kExhausted (no room in /dev/shm),
//         kCorrupt, kInvalidArgument (another version, another rule); create() and start() with a
//         device also kUnimplemented (no GPU, driver or CUDA), and what CUDA says. A GPU that fails
//         later is left: the processor folds from then on, which the log and stats() say.
class FFDL_API ParameterServer {
 public:
  // `custom` replaces options.rule. `from` continues at a cut: its weights, state and ledger.
  static Result<std::unique_ptr<ParameterServer>> create(
      const ParameterServerOptions& options, std::unique_ptr<UpdateRule> custom = nullptr,
      const ParameterServerCut* from = nullptr);

  // Takes over the segment of a dead server and finishes the fold that it was in. The dead one's
  // GPU folds; where this process cannot use it, the processor does, which the log and stats() say.
  static Result<std::unique_ptr<ParameterServer>> adopt(
      std::string_view name, std::unique_ptr<UpdateRule> custom = nullptr);

  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  Status start();
  Status stop();
  Status serve(const StopToken& stop);  // start(), wait for `stop`, stop()

  // The weights themselves. Write the initial values here, before start().
  std::span<float> weights();
  const std::string& name() const;
  uint64_t version() const;
  ParameterServerStats stats() const;

  // A consistent state, while training goes on. Blocks: until every shard has reached the cut.
  Result<ParameterServerCut> cut(Time deadline);

  class Impl;

 private:
  friend class DeviceLearner;
  friend class Learner;
  friend class ParameterServerView;
  explicit ParameterServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A look from outside: reads, and takes part in nothing.
// Threads: all methods from any thread. Owns: a mapping of the segment.
class FFDL_API ParameterServerView {
 public:
  // Waits for the name to appear. Errors: kTimeout, kCorrupt, kInvalidArgument (another version).
  static Result<std::unique_ptr<ParameterServerView>> open(std::string_view name, Time deadline);
  ~ParameterServerView();

  uint64_t parameters() const;
  ParameterServerStats stats() const;
  // Copies the weights out and returns their version. Blocks: as Learner::pull.
  Result<uint64_t> pull(std::span<float> weights, PullMode mode = PullMode::kRelaxed) const;

  class Impl;

 private:
  explicit ParameterServerView(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
