#include "comm/operation/collective_blocks.h"

namespace ffdl::comm {

uint64_t in_blocks(Collective kind, int root, int rank, int ranks) {
  const auto all = static_cast<uint64_t>(ranks);
  switch (kind) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kSend:
      return 1;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return all;
    case Collective::kBroadcast:
      return rank == root ? 1 : 0;
    case Collective::kScatter:
      return rank == root ? all : 0;
    case Collective::kBarrier:
    case Collective::kRecv:
      return 0;
  }
  return 0;
}

uint64_t out_blocks(Collective kind, int root, int rank, int ranks) {
  const auto all = static_cast<uint64_t>(ranks);
  switch (kind) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kScatter:
    case Collective::kRecv:
      return 1;
    case Collective::kReduce:
      return rank == root ? 1 : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return all;
    case Collective::kGather:
      return rank == root ? all : 0;
    case Collective::kBarrier:
    case Collective::kSend:
      return 0;
  }
  return 0;
}

std::vector<Part> parts_of(Collective kind, int root, int rank, int ranks) {
  const auto mine = static_cast<uint64_t>(rank);
  std::vector<Part> parts(out_blocks(kind, root, rank, ranks));
  for (uint64_t out = 0; out < parts.size(); ++out) {
    const auto source = static_cast<int>(out);
    switch (kind) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        parts[out] = {out, kReduced, 0};
        break;
      case Collective::kReduceScatter:
        parts[out] = {out, kReduced, mine};
        break;
      case Collective::kAllGather:
      case Collective::kGather:
        parts[out] = {out, source, 0};
        break;
      case Collective::kBroadcast:
      case Collective::kRecv:
        parts[out] = {out, root, 0};
        break;
      case Collective::kScatter:
        parts[out] = {out, root, mine};
        break;
      case Collective::kAllToAll:
        parts[out] = {out, source, mine};
        break;
      case Collective::kBarrier:
      case Collective::kSend:
        break;
    }
  }
  return parts;
}

bool reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

bool has_root(Collective kind) {
  return kind == Collective::kReduce || kind == Collective::kGather ||
         kind == Collective::kBroadcast || kind == Collective::kScatter;
}

bool is_pair(Collective kind) { return kind == Collective::kSend || kind == Collective::kRecv; }

}  // namespace ffdl::comm
