#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/limits.h"
#include "comm/descriptor_exchange.h"
#include "comm/device_communicator.h"
#include "comm/device_reduce.h"

namespace ffdl::comm {

// GPUs of one host, or one GPU of several processes, through memory of theirs that all have mapped.
// Each rank lays what it gives into its own stage; when all have said on the hosts that theirs is
// there, each makes its output from the stages of all, by its own GPU. No GPU waits for another,
// and nobody writes where another rank reads. What a rank that died has laid there stays until the
// last of the others is gone.
class DeviceShmCommunicator final : public DeviceCommunicator {
 public:
  // As reduce_on_device(): for tests, whose device runs no kernels.
  using Reduce = std::function<Status(ReduceOp, DType, std::span<const void* const> inputs,
                                      void* out, uint64_t count, base::DeviceStream)>;
  struct Parts {
    std::unique_ptr<WatchedCommunicator> host;  // of one host
    std::unique_ptr<base::DeviceSide> side;
    int device = -1;                                 // that of the thread that connects
    uint64_t stage_bytes = base::kDeviceStageBytes;  // of each part; equal at all ranks
    std::function<Status()> look{};
    Reduce reduce = &reduce_on_device;
  };
  // All members call it. Blocks until all have mapped the memory of all, or the deadline. Errors:
  // kInvalidArgument (more than kDeviceInputsMax members), what a rank lacks (kUnimplemented where
  // it has no GPU, or one that does not reach the others' memory; kExhausted where that is full),
  // of which the others are told with the same code, kTimeout, kPeerLost and those of `look`.
  static Result<std::unique_ptr<Communicator>> connect(World world, Parts parts, Time deadline);
  ~DeviceShmCommunicator() override;

  Backend backend() const override { return Backend::kDeviceShm; }

 private:
  // What each rank tells of itself, before and after it maps the others' memory.
  struct Card;
  // Elements of each block, which pass through the stages together.
  struct Chunk {
    uint64_t begin;
    uint64_t count;
    uint64_t room;  // from one block to the next in a stage
  };

  DeviceShmCommunicator(World world, Parts parts);
  Status open(Time deadline);
  Status map_stages(const std::vector<Card>& cards, const std::vector<base::ForkPrivateFd>& names);
  // Errors: `mine`, or that of the first other that could not do this.
  Result<std::vector<Card>> tell(const Status& mine, Card card, Time deadline);

  Status run_on_device(const Request& request, Time deadline) override;
  void give_up(const Status& why) override;
  Status run_collective(const Request& request, Time deadline);
  Status run_pair(const Request& request, Time deadline);
  // Its elements in my input, to my stage; in the stages of all, to my output.
  Status give(const Request& request, const Chunk& chunk);
  Status take(const Request& request, const Chunk& chunk);
  Status reduce(const Request& request, const Chunk& chunk, uint64_t in_block, uint64_t to);

  Status wait_until_done(Time deadline);

  // Where a rank lays what it gives in chunk number given_.
  std::byte* half_of(int rank) const;
  // Where it lays messages, and what cannot be made in place.
  std::byte* box_of(int rank) const;

  const uint64_t stage_bytes_;
  const Reduce reduce_;
  std::vector<base::SideMemory> stages_;  // of all ranks: two halves and a box
  uint64_t given_ = 0;                    // chunks that all have given, in all operations
};

}  // namespace ffdl::comm
