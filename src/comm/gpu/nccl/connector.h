#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/gpu/nccl/link.h"
#include "comm/gpu/nccl/plan.h"
#include "ffdl/comm/communicator.h"

namespace ffdl::comm {

// Connects the GPUs of a world, together with its other ranks. NCCL waits for ever for a missing
// rank. So every possible failure of a rank is first exchanged through the host.
// Threads: one at a time. Borrows all its arguments.
class NcclConnector {
 public:
  using Library = std::shared_ptr<const NcclLibrary>;
  // Makes a pause that ends at `deadline`, or when a member is lost.
  using PauseUntil = std::function<Pause(std::string_view doing, Time deadline)>;

  // `derive_max` bounds derive(), before all connect afresh.
  NcclConnector(const World& world, Communicator& host, PauseUntil pause_until, Duration derive_max)
      : world_(world), host_(host), pause_until_(std::move(pause_until)), derive_max_(derive_max) {}

  // Checks that all ranks can take part, with one version and one `worlds`. `mine` is what this
  // rank lacks.
  // Errors: kUnimplemented (a rank cannot: the message names it), kInvalidArgument (unlike ones).
  Status agree(const Status& mine, const Result<Library>& library, GpuWorlds worlds, Time deadline);
  // Connects all ranks afresh.
  NcclLink::Made connect(const Library& library, Time deadline);
  // Derives the world from the one before if NCCL can, and if that succeeds at all ranks. Otherwise
  // connects all afresh. `mine` describes `before`, which is null for none and can only end
  // afterwards.
  NcclLink::Made derive(const Library& library, const NcclPast& mine, NcclLink* before,
                        Time deadline);

 private:
  // An id in the form sent from host to host.
  struct Told;
  Result<std::vector<nccl::UniqueId>> exchange_ids(const Library& library, Time deadline);
  NcclLink::Made grow(const Library& library, NcclLink* before, Time deadline);
  Pause pause_deriving(Time deadline) const;
  Status lacks(size_t rank) const;
  NcclLink::Made named(NcclLink::Made made) const;

  const World& world_;
  Communicator& host_;
  const PauseUntil pause_until_;
  const Duration derive_max_;
};

}  // namespace ffdl::comm
