#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/limits.h"
#include "comm/gpu/communicator.h"
#include "comm/reduce/device_reduce.h"
#include "comm/shm/descriptor_exchange.h"

namespace ffdl::comm {

// Connects GPUs of one host, or one GPU of several processes, through memory of theirs that all
// have mapped. Each rank copies its input into its own stage. When all have confirmed this on the
// hosts, each makes its output from the stages of all, by its own GPU. No GPU waits for another,
// and no rank writes where another reads. The stage of a rank that died stays until the last of the
// others is gone.
class DeviceShmCommunicator final : public DeviceCommunicator {
 public:
  // Reduces as reduce_on_device() does; tests replace it, as their device runs no kernels.
  using Reduce = std::function<Status(ReduceOp, DType, std::span<const void* const> inputs,
                                      void* out, uint64_t count, base::DeviceStream)>;
  struct Parts {
    std::unique_ptr<WatchedCommunicator> host;  // of one host
    std::unique_ptr<base::DeviceSide> side;
    int device = -1;                                 // that of the connecting thread
    uint64_t stage_bytes = base::kDeviceStageBytes;  // of each part; equal at all ranks
    std::function<Status()> interrupt_check{};
    Reduce reduce = &reduce_on_device;
  };
  // Connects all members: each calls it. Blocks until all have mapped the memory of all, or the
  // deadline.
  // Errors: kInvalidArgument (more than kDeviceInputsMax members), kUnimplemented (a rank has no
  //         GPU, or one that does not reach the others' memory), kExhausted (that memory is full),
  //         kTimeout, kPeerLost and those of `interrupt_check`. The other ranks return the same
  //         code for what a rank lacks.
  static Result<std::unique_ptr<Communicator>> connect(World world, Parts parts, Time deadline);
  ~DeviceShmCommunicator() override;

  Backend backend() const override { return Backend::kDeviceShm; }

 private:
  // The data of each rank that is exchanged before and after it maps the others' memory.
  struct Card;
  // Elements of each block that pass through the stages together.
  struct Chunk {
    uint64_t begin;
    uint64_t count;
    uint64_t room;  // from one block to the next in a stage
  };

  DeviceShmCommunicator(World world, Parts parts);
  Status open(Time deadline);
  Status map_stages(const std::vector<Card>& cards, const std::vector<base::ForkPrivateFd>& names);
  // Exchanges the cards. Errors: `mine`, or that of the first other rank that failed.
  Result<std::vector<Card>> tell(const Status& mine, Card card, Time deadline);

  Status run_on_device(const Request& request, Time deadline) override;
  void give_up(const Status& why) override;
  Status run_collective(const Request& request, Time deadline);
  Status run_pair(const Request& request, Time deadline);
  // Copies the chunk from this rank's input to its stage, and from the stages of all to its output.
  Status give(const Request& request, const Chunk& chunk);
  Status take(const Request& request, const Chunk& chunk);
  Status reduce(const Request& request, const Chunk& chunk, uint64_t in_block, uint64_t to);

  Status wait_until_done(Time deadline);

  // Returns the half of a rank's stage for chunk number given_.
  std::byte* half_of(int rank) const;
  // Returns a rank's box, for its messages and for results that cannot be made in place.
  std::byte* box_of(int rank) const;

  const uint64_t stage_bytes_;
  const Reduce reduce_;
  std::vector<base::SideMemory> stages_;  // of all ranks: two halves and a box
  uint64_t given_ = 0;                    // chunks that all ranks have copied, in all operations
};

}  // namespace ffdl::comm
