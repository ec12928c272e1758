#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/nccl_link.h"
#include "comm/nccl_plan.h"
#include "ffdl/communicator.h"

namespace ffdl::comm {

// What the ranks of a world do together until their GPUs are connected. NCCL waits for ever for who
// does not come, so that whatever can go wrong at one of them is told through the host first.
// Threads: one at a time. Borrows all that it is given.
class NcclConnector {
 public:
  using Library = std::shared_ptr<const NcclLibrary>;
  // A wait that ends at `deadline`, or when somebody is lost.
  using PauseUntil = std::function<Pause(std::string_view doing, Time deadline)>;

  // `derive_max` bounds derive(), before all connect anew.
  NcclConnector(const World& world, Communicator& host, PauseUntil pause_until, Duration derive_max)
      : world_(world), host_(host), pause_until_(std::move(pause_until)), derive_max_(derive_max) {}

  // All ranks can take part, by one version and in one way. `mine` says what this one lacks.
  // Errors: kUnimplemented (a rank cannot: the message names it), kInvalidArgument (unlike ones).
  Status agree(const Status& mine, const Result<Library>& library, GpuWorlds worlds, Time deadline);
  // Each from nothing.
  NcclLink::Made connect(const Library& library, Time deadline);
  // Out of what they have from the world before, where NCCL can and it goes well at all of them;
  // from nothing otherwise. `before` is what `mine` is about; null: nothing. It only ends then.
  NcclLink::Made derive(const Library& library, const NcclPast& mine, NcclLink* before,
                        Time deadline);

 private:
  // An id as it goes from host to host.
  struct Told;
  Result<std::vector<nccl::UniqueId>> exchange_ids(const Library& library, Time deadline);
  NcclLink::Made grow(const Library& library, NcclLink* before, Time deadline);
  Pause pause_deriving(Time deadline) const;
  Status lacks(size_t rank) const;

  const World& world_;
  Communicator& host_;
  const PauseUntil pause_until_;
  const Duration derive_max_;
};

}  // namespace ffdl::comm
