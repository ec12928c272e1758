#include "comm/gpu/nccl/choice.h"

#include <cstdio>
#include <string>

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
    return base::make_error(status, "{}: NCCL reported '{}'{}{}; {}", doing, name,
                            text.empty() ? "" : ": ", text, advice);
  };
  switch (code) {
    case nccl::Code::kRemoteError:
    case nccl::Code::kSystemError:
      return told(StatusCode::kPeerLost,
                  "form a new world, and see NCCL_DEBUG=WARN if it happens again");
    case nccl::Code::kInvalidArgument:
    case nccl::Code::kInvalidUsage:
      return told(
          StatusCode::kInvalidArgument,
          "give each rank a GPU of its own ('ffdl run --nproc-per-node gpu'), or let ranks "
          "share one with Backend::kDeviceShm; docs/guide/gpu.md lists what lets NCCL share "
          "one, and NCCL_DEBUG=WARN reports more");
    case nccl::Code::kTimeout:
      return told(StatusCode::kTimeout, "wait longer, or find out what the others do");
    default:
      return told(StatusCode::kInternal, "see NCCL_DEBUG=WARN and the log of the driver (dmesg)");
  }
}

std::optional<std::pair<int, int>> ranks_on_one_gpu(std::string_view text) {
  constexpr std::string_view kBegin = "Duplicate GPU detected";
  const size_t at = text.find(kBegin);
  if (at == text.npos) return std::nullopt;
  std::pair<int, int> ranks;
  const std::string rest(text.substr(at + kBegin.size()));
  if (std::sscanf(rest.c_str(), " : rank %d and rank %d", &ranks.first, &ranks.second) != 2) {
    return std::nullopt;
  }
  return ranks;
}

}  // namespace ffdl::comm
