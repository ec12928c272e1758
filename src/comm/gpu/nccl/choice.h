#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "comm/gpu/nccl/interface.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Makes the decisions about NCCL, as pure functions.
namespace ffdl::comm {

// Returns how many unique ids the ranks of a world connect through. Each belongs to a process that
// its share of the ranks connects to. It is 1 unless there are many ranks and the library supports
// several.
int nccl_ids(int ranks, const nccl::Functions& library);

// Returns whether `rank` makes one of the ids: the first of each share, where shares are as equal
// as can be. NCCL requires that order (its user guide, "Creating a communicator using multiple
// ncclUniqueIds").
bool makes_nccl_id(int rank, int ranks, int ids);

// Converts a type or an operation to NCCL's. Errors: kUnimplemented (int16, which NCCL does not
// have).
Result<nccl::Type> nccl_type(DType type);
nccl::Op nccl_op(ReduceOp op);

// Converts a failed call of NCCL to the caller's error; `text` is NCCL's own. kPeerLost: a
// connection broke or a rank reported a failure. kInvalidArgument: NCCL refuses the world or the
// call, for example when two ranks have one GPU. kTimeout; else kInternal.
Status nccl_error(std::string_view doing, nccl::Code code, std::string_view name,
                  std::string_view text);

// Returns the two ranks that NCCL's text reports to have one GPU. None: it reports something else.
std::optional<std::pair<int, int>> ranks_on_one_gpu(std::string_view text);

}  // namespace ffdl::comm
