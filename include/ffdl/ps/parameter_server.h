#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/ps/update_rule.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// A parameter server for one host (GaDei, arXiv 1611.06213). Weights, optimizer state and the
// gradients of all learners are in one shared-memory segment. Learners are processes or threads
// that attach and detach at any time. One atomic write commits a gradient together with its
// samples. kill -9 of a learner or the server, at any instruction, neither loses nor repeats a
// committed gradient. docs/internals/protocol-ps.md has the protocol.
namespace ffdl {

// The bound on how far learners may drift apart.
enum class Synchrony : uint32_t {
  kAsync,  // ASGD: no learner waits for another
  kStale,  // SSP: a learner waits while more than `staleness` mini-batches ahead of the slowest
  kBulk,   // BSP: one update per round, with the mean of one mini-batch of every learner
};

struct ParameterServerOptions {
  std::string name{};        // letters, digits, '.', '-', '_'; empty: anonymous, for threads
  uint64_t parameters = 0;   // number of float32 weights
  UpdateRuleOptions rule{};  // ignored if create() is given a custom rule
  LearningRateSchedule schedule{};
  float clip_value = 0;  // clamp gradient elements to [-clip_value, clip_value]; 0: off
  float clip_norm = 0;   // scale a mini-batch's gradient to at most this 2-norm; 0: off
  NonFinite non_finite = NonFinite::kReject;
  Synchrony synchrony = Synchrony::kAsync;
  uint32_t staleness = 0;    // kStale only
  int threads = 1;           // server threads; each owns one shard of the weights
  int learners_max = 16;     // slots, 1 to 254
  uint32_t partitions = 0;   // of the data set, for the ledger; 0: as many as learners_max
  uint32_t ranges_max = 64;  // sample ranges in one gradient (adjacent ones merge)
  // The type of gradients in the slots: kFloat32, kBFloat16 or kFloat16. Weights are float32. 16
  // bits need half of the memory and bandwidth. Such gradients are rounded at the push, and again
  // at each addition while the server is late. With kFloat16 an element with a magnitude above
  // 65504 counts as not finite.
  DType gradient_type = DType::kFloat32;
  uint32_t rows_max = 0;      // rows and parts in one sparse gradient, including those added
                              //   to it while the server is late; 0: dense gradients only
  bool bind_to_nodes = true;  // with several NUMA nodes: each shard's memory and thread on one node
  // The CUDA number of the GPU that folds; -1: the GPU of the calling thread. The GPU also stores
  // weights and state, and folds all waiting dense gradients as one batch. The results have the
  // same bits as on the processor (docs/guide/gpu.md). Not with kBulk or a custom rule.
  std::optional<int> device{};
};

// The placement of a server's memory, as the kernel reports it to the calling process. A refusal by
// the system is no error: the notes have the reason, and training is only slower.
// docs/decisions/0005-placement.md has the design.
struct MemoryPlacement {
  std::vector<int> shard_nodes;  // NUMA node of each shard's weights; -1: not known to the kernel
  bool bound = false;            // each shard's pages were requested on its node
  int threads_bound = 0;         // server threads of this process bound to their shard's node
  std::string note;              // why memory and threads are bound, or not
  uint64_t huge_page_bytes = 0;  // of the segment, measured when this process mapped it
  std::string huge_page_note;    // the system's setting
};

// The progress of one slot: the sum over all its learners.
struct LearnerProgress {
  int slot = 0;
  bool attached = false;
  int64_t pid = 0;            // in the learner's own pid namespace; 0 if never used
  uint32_t incarnation = 0;   // number of times that the slot was attached
  uint64_t published = 0;     // gradients published, the slot's sequence number
  uint64_t folded = 0;        // of the published, folded into all shards
  uint64_t mini_batches = 0;  // folded: one or several per gradient, or 0 if they were skipped
  uint64_t skipped = 0;       // mini-batches skipped for NaN or Inf
  uint64_t samples = 0;       // of folded and of skipped mini-batches
};

// The ledger of one partition that starts at sample 0. If each sample was used once, samples ==
// committed and repeated == missing == 0.
struct PartitionProgress {
  uint64_t committed = 0;  // the first position that is not committed
  uint64_t samples = 0;
  uint64_t repeated = 0;  // positions that were committed again
  uint64_t missing = 0;   // positions that pushes left out
};

struct ParameterServerStats {
  uint64_t version = 0;  // gradients folded by the slowest shard; never decreases
  uint64_t epoch = 0;    // 1 for the creator, one more for every successor
  bool server_alive = false;
  int64_t server_pid = 0;
  uint64_t recoveries = 0;                // interrupted folds that a successor finished
  uint64_t learners_reclaimed = 0;        // learners that died while attached
  std::vector<LearnerProgress> learners;  // slots that were ever used
  std::vector<PartitionProgress> partitions;
  // Counts gradients by the number of other gradients that were folded between pull and fold.
  // staleness[0]: none was. staleness[b]: 2^(b-1) to 2^b - 1 were.
  std::array<uint64_t, 32> staleness{};
  MemoryPlacement memory;       // a view does not set `note` and `threads_bound`
  std::optional<int> device{};  // the GPU that folds; a view does not set it
};

enum class PullMode {
  kRelaxed,   // a plain copy; may contain parts of other learners' gradients (Hogwild)
  kSnapshot,  // each shard as it was between two updates; waits for the shard's current
              //   fold, at most 10 s (a dead or stopped server: kTimeout)
};

// A consistent state of the whole server: all shards have folded exactly the same gradients.
struct ParameterServerCut {
  uint64_t version = 0;
  uint64_t updates = 0;  // the version; with Synchrony::kBulk the number of rounds
  std::string rule;
  std::vector<float> weights;
  std::vector<std::vector<float>> state;  // one per state value of the rule
  std::vector<PartitionProgress> partitions;

  // Writes the cut atomically (temporary name, fsync, rename), with a checksum.
  FFDL_API Status save(const std::string& path) const;
  // Reads a saved cut. Errors: kNotFound, kCorrupt (torn or changed file).
  FFDL_API static Result<ParameterServerCut> load(const std::string& path);
};

// The server. create() and adopt() lock the segment for this process; start() starts the threads.
// Threads: stats(), cut() and version() from any thread; the rest from one thread at a time.
// Owns: the segment. The destructor stops the threads and removes the name. If the server is
//       killed, the segment remains for adopt().
// Blocks: stop() until the gradients published so far are folded.
// Errors: kConflict (name in use, or its server is alive), kExhausted (no room in /dev/shm),
//         kCorrupt, kInvalidArgument (another version, another rule); create() and start() with a
//         device also kUnimplemented (no GPU, driver or CUDA), and those of CUDA. If the GPU fails
//         later, the processor folds from then on; the log and stats() report it.
class FFDL_API ParameterServer {
 public:
  // Creates a segment. `custom` replaces options.rule. `from` continues from the weights, state and
  // ledger of a cut.
  static Result<std::unique_ptr<ParameterServer>> create(
      const ParameterServerOptions& options, std::unique_ptr<UpdateRule> custom = nullptr,
      const ParameterServerCut* from = nullptr);

  // Locks the segment of a dead server. start() then finishes the interrupted fold. The GPU of the
  // dead server folds. If it is not usable here, the processor folds; log and stats() report it.
  static Result<std::unique_ptr<ParameterServer>> adopt(
      std::string_view name, std::unique_ptr<UpdateRule> custom = nullptr);

  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  Status start();
  Status stop();
  // Calls start(), waits for `stop` and calls stop(). Errors: also kCancelled (this process's
  // launcher has ended; all published gradients are folded).
  Status serve(const StopToken& stop);

  // Returns the shared weights. Write the initial values there before start().
  std::span<float> weights();
  const std::string& name() const;
  uint64_t version() const;
  ParameterServerStats stats() const;

  // Copies a consistent state while training continues. Blocks: until all shards are copied.
  Result<ParameterServerCut> cut(Time deadline);

  class Impl;

 private:
  friend class Learner;
  friend class ParameterServerView;
  explicit ParameterServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A read-only view of a server, for any process. A view has no slot, and pushes nothing.
// Threads: all methods from any thread. Owns: a mapping of the segment.
class FFDL_API ParameterServerView {
 public:
  // Opens a view. Waits for the name to appear.
  // Errors: kTimeout, kCorrupt, kInvalidArgument (another version).
  static Result<std::unique_ptr<ParameterServerView>> open(std::string_view name, Time deadline);
  ~ParameterServerView();

  uint64_t parameters() const;
  ParameterServerStats stats() const;
  // Copies the weights and returns their version. Blocks: as Learner::pull.
  Result<uint64_t> pull(std::span<float> weights, PullMode mode = PullMode::kRelaxed) const;

  class Impl;

 private:
  explicit ParameterServerView(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
