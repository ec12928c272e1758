#pragma once

#include <string_view>

#include "comm/nccl_interface.h"
#include "ffdl/operation.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// What is decided about NCCL, as pure functions.
namespace ffdl::comm {

// How many unique ids the ranks of a world connect through: each is a process that its share of
// them talks to. One, unless there are many ranks and the library can take several.
int nccl_ids(int ranks, const nccl::Functions& library);

// Whether `rank` makes one of them: the first of each share, which are as equal as can be. NCCL
// asks for that order (its user guide, "Creating a communicator using multiple ncclUniqueIds").
bool makes_nccl_id(int rank, int ranks, int ids);

// What NCCL adds up as what. Errors: kUnimplemented (int16, which it does not know).
Result<nccl::Type> nccl_type(DType type);
nccl::Op nccl_op(ReduceOp op);

// What the caller is told of a call of NCCL that failed; `text` is NCCL's own. kPeerLost: a
// connection broke or a rank said that it failed; kInvalidArgument: NCCL refuses the world or the
// call, as where two ranks have one GPU; kTimeout; else kInternal.
Status nccl_error(std::string_view doing, nccl::Code code, std::string_view name,
                  std::string_view text);

}  // namespace ffdl::comm
