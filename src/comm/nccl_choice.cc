#include "comm/nccl_choice.h"

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::comm {

int nccl_ids(int ranks, const nccl::Functions& library) {
  if (library.init_rank_scalable == nullptr) return 1;
  return (ranks + base::kNcclRanksPerId - 1) / base::kNcclRanksPerId;
}

bool makes_nccl_id(int rank, int ranks, int ids) {
  const int least = ranks / ids;
  const int in_larger = ranks % ids * (least + 1);
  return rank < in_larger ? rank % (least + 1) == 0 : (rank - in_larger) % least == 0;
}

Result<nccl::Type> nccl_type(DType type) {
  switch (type) {
    case DType::kInt8:
      return nccl::Type::kInt8;
    case DType::kInt32:
      return nccl::Type::kInt32;
    case DType::kInt64:
      return nccl::Type::kInt64;
    case DType::kFloat16:
      return nccl::Type::kFloat16;
    case DType::kBFloat16:
      return nccl::Type::kBFloat16;
    case DType::kFloat32:
      return nccl::Type::kFloat32;
    case DType::kFloat64:
      return nccl::Type::kFloat64;
    case DType::kInt16:
      break;
  }
  return base::make_error(StatusCode::kUnimplemented,
                          "reduce {} in a GPU's memory: NCCL has no such type; use int32, or copy "
                          "the numbers to the host",
                          to_string(type));
}

nccl::Op nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return nccl::Op::kSum;
    case ReduceOp::kMean:
      return nccl::Op::kMean;
    case ReduceOp::kMin:
      return nccl::Op::kMin;
    case ReduceOp::kMax:
      return nccl::Op::kMax;
    case ReduceOp::kProduct:
      return nccl::Op::kProduct;
  }
  return nccl::Op::kSum;
}

Status nccl_error(std::string_view doing, nccl::Code code, std::string_view name,
                  std::string_view text) {
  const auto told = [&](StatusCode status, std::string_view advice) {
    return base::make_error(status, "{}: NCCL says '{}'{}{}; {}", doing, name,
                            text.empty() ? "" : ": ", text, advice);
  };
  switch (code) {
    case nccl::Code::kRemoteError:
    case nccl::Code::kSystemError:
      return told(StatusCode::kPeerLost,
                  "form a new world, and see NCCL_DEBUG=WARN if it happens again");
    case nccl::Code::kInvalidArgument:
    case nccl::Code::kInvalidUsage:
      return told(StatusCode::kInvalidArgument,
                  "give each rank a GPU of its own, or set NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL "
                  "2.30.7 and later) or another NCCL_HOSTID for each process (before), and see "
                  "NCCL_DEBUG=WARN");
    case nccl::Code::kTimeout:
      return told(StatusCode::kTimeout, "wait longer, or find out what the others do");
    default:
      return told(StatusCode::kInternal, "see NCCL_DEBUG=WARN and the log of the driver (dmesg)");
  }
}

}  // namespace ffdl::comm
