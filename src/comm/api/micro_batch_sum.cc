#include "ffdl/comm/micro_batch_sum.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/gpu/subtree_values.h"
#include "comm/operation/request.h"
#include "comm/reduce/subtree_values.h"

namespace ffdl {

using base::invalid_argument;

namespace {

constexpr std::string_view kCreating = "create a sum of micro-batches";

Status check_options(const MicroBatchOptions& options, const World& world) {
  if (options.shares.size() != world.members.size()) {
    return invalid_argument("{}: {} shares for {} ranks; give one share for each rank", kCreating,
                            options.shares.size(), world.size());
  }
  uint64_t micro_batches = 0;
  for (const uint64_t share : options.shares) {
    micro_batches += std::min(share, base::kMicroBatchesMax + 1);
  }
  if (micro_batches == 0 || micro_batches > base::kMicroBatchesMax) {
    return invalid_argument("{}: the shares have {} micro-batches in a step; give 1 to {} in all",
                            kCreating, micro_batches == 0 ? "no" : "too many",
                            base::kMicroBatchesMax);
  }
  // Only checked: describes an all_reduce of that many elements at any address.
  const Buffer any = {&micro_batches, options.count, options.dtype};
  const auto possible =
      comm::check_operation({Collective::kAllReduce, {}, {&any, 1}, options.op}, world);
  return possible.ok() ? Status() : Status(possible.status()).with_context(kCreating);
}

Status check_device(const MicroBatchOptions& options, Backend backend) {
  if (!options.device) return {};
  if (!reaches_devices(backend)) {
    return invalid_argument(
        "{}: the gradients are in a GPU's memory, but the communicator uses the host's; use a "
        "communicator of kNccl or kDeviceShm",
        kCreating);
  }
  const bool is_sum = options.op == ReduceOp::kSum || options.op == ReduceOp::kMean;
  if (is_sum && options.dtype >= DType::kFloat16) return {};
  return base::make_error(
      StatusCode::kUnimplemented,
      "{}: a GPU adds up only floating point numbers; for other types or reductions, copy the "
      "gradients to the host's memory",
      kCreating);
}

// Returns what all ranks must agree on, as they exchange it.
std::vector<int64_t> claim_of(const MicroBatchOptions& options) {
  std::vector<int64_t> claim = {static_cast<int64_t>(options.op),
                                static_cast<int64_t>(options.dtype),
                                static_cast<int64_t>(options.count), options.device ? 1 : 0};
  claim.insert(claim.end(), options.shares.begin(), options.shares.end());
  return claim;
}

std::string describe_claim(std::span<const int64_t> claim) {
  const comm::Signature signature = {.kind = Collective::kAllReduce,
                                     .reduce = static_cast<ReduceOp>(claim[0]),
                                     .root = 0,
                                     .dtype = static_cast<DType>(claim[1]),
                                     .block = static_cast<uint64_t>(claim[2])};
  return fmt::format("{}{} for shares of {}", describe(signature),
                     claim[3] == 1 ? " in a GPU's memory" : "", fmt::join(claim.subspan(4), ", "));
}

}  // namespace

class MicroBatchSum::Impl {
 public:
  Impl(Communicator& communicator, const MicroBatchOptions& options, base::ChosenGpu chosen);

  Status agree(Time deadline);
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + share(); }
  Status add(std::span<const Buffer> gradient);
  void clear();
  Status finish(std::span<const Buffer> out, Time deadline, std::optional<double> weight);

 private:
  uint64_t ranks() const { return options_.shares.size(); }
  size_t rank() const { return static_cast<size_t>(communicator_.world().rank); }
  uint64_t share() const { return options_.shares[rank()]; }
  Status check_list(std::span<const Buffer> list, std::string_view doing) const;
  Status reduce(std::span<const Buffer> out, Time deadline, double divisor);
  // Reduces this rank's piece of all micro-batches into `piece_`.
  Status reduce_piece(Time deadline);
  // Reduces elements [begin, begin + count) of that piece from the nodes of all ranks.
  Status reduce_window(uint64_t begin, uint64_t count, Time deadline);
  // Returns the piece as it is sent to all ranks.
  Result<Buffer> settle_piece(double divisor);
  // Memory that grows, on the side of the gradients.
  struct Room {
    base::SideMemory memory{};
    uint64_t bytes = 0;
  };
  Result<std::byte*> room_for(uint64_t bytes, Room& room);

  Communicator& communicator_;
  const MicroBatchOptions options_;
  const ReduceOp op_;  // kSum for a mean, which is divided at the end
  uint64_t micro_batches_ = 0;
  uint64_t begin_ = 0;
  std::vector<comm::Subtree> nodes_;  // of all ranks
  std::vector<uint64_t> nodes_of_;    // the number of nodes of each rank
  uint64_t nodes_most_ = 0;           // the most nodes of one rank
  bool is_tree_of_ranks_ = false;
  const uint64_t piece_count_;  // elements that each rank reduces; zeros pad the last
  std::unique_ptr<comm::RankValues> mine_;
  uint64_t added_ = 0;
  Room piece_;
  Room narrow_piece_;
  Room window_;
  Room filler_;
  Room behind_the_last_;
};

MicroBatchSum::Impl::Impl(Communicator& communicator, const MicroBatchOptions& options,
                          base::ChosenGpu chosen)
    : communicator_(communicator),
      options_(options),
      op_(options.op == ReduceOp::kMean ? ReduceOp::kSum : options.op),
      micro_batches_(std::accumulate(options.shares.begin(), options.shares.end(), uint64_t{0})),
      piece_count_((options.count + options.shares.size() - 1) / options.shares.size()) {
  const uint64_t room = piece_count_ * options.shares.size();
  if (options.device) {
    mine_ = std::make_unique<comm::DeviceSubtreeValues>(std::move(chosen), options.dtype,
                                                        options.count, room);
  } else {
    mine_ = std::make_unique<comm::SubtreeValues>(op_, options.dtype, options.count, room);
  }
  uint64_t begin = 0;
  for (const uint64_t share : options.shares) {
    if (nodes_of_.size() == rank()) begin_ = begin;
    const uint64_t end = begin + share;
    const std::vector<comm::Subtree> nodes = comm::subtrees_of(begin, end, micro_batches_);
    nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
    nodes_of_.push_back(nodes.size());
    begin = end;
  }
  nodes_most_ = *std::ranges::max_element(nodes_of_);
  // NCCL adds in an order of its own, so it only moves what a GPU has added.
  is_tree_of_ranks_ = !options.device &&
                      std::ranges::all_of(nodes_of_, [](uint64_t nodes) { return nodes == 1; }) &&
                      comm::is_tree_of_ranks(nodes_, micro_batches_);
}

Status MicroBatchSum::Impl::agree(Time deadline) {
  std::vector<int64_t> mine = claim_of(options_);
  std::vector<int64_t> all(mine.size() * ranks());
  FFDL_RETURN_IF_ERROR(communicator_.all_gather({mine.data(), mine.size(), DType::kInt64},
                                                {all.data(), all.size(), DType::kInt64}, deadline));
  for (size_t other = 0; other < ranks(); ++other) {
    const auto theirs = std::span(all).subspan(other * mine.size(), mine.size());
    if (std::ranges::equal(theirs, mine)) continue;
    return invalid_argument("{} at rank {}: {}, but at rank {} {}; give all ranks the same options",
                            kCreating, rank(), describe_claim(mine), other, describe_claim(theirs));
  }
  return {};
}

Status MicroBatchSum::Impl::check_list(std::span<const Buffer> list, std::string_view doing) const {
  FFDL_ASSIGN_OR_RETURN(const uint64_t count, comm::count_elements(list, options_.dtype, doing));
  if (count == options_.count) return {};
  return invalid_argument("{}: {} elements were given; gradients of this sum have {}", doing, count,
                          options_.count);
}

Status MicroBatchSum::Impl::add(std::span<const Buffer> gradient) {
  FFDL_RETURN_IF_ERROR(check_list(gradient, "add a micro-batch"));
  if (added_ == share()) {
    return invalid_argument(
        "add a micro-batch: all {} micro-batches of rank {} were added; finish the step", share(),
        rank());
  }
  FFDL_RETURN_IF_ERROR(mine_->add(begin_ + added_, micro_batches_, gradient));
  ++added_;
  return {};
}

void MicroBatchSum::Impl::clear() {
  mine_->clear();
  added_ = 0;
}

Status MicroBatchSum::Impl::finish(std::span<const Buffer> out, Time deadline,
                                   std::optional<double> weight) {
  constexpr std::string_view kFinishing = "finish a step of micro-batches";
  FFDL_RETURN_IF_ERROR(check_list(out, kFinishing));
  if (added_ != share()) {
    return invalid_argument(
        "{}: {} of the {} micro-batches of rank {} were added; add the remaining ones", kFinishing,
        added_, share(), rank());
  }
  if (weight.has_value() && options_.op != ReduceOp::kMean) {
    return invalid_argument(
        "{}: a weight was given, but the reduction is not a mean; leave the weight out",
        kFinishing);
  }
  const double divisor = weight.value_or(static_cast<double>(micro_batches_));
  if (!(divisor > 0 && std::isfinite(divisor))) {
    return invalid_argument("{}: the weight is {}; give a number above 0", kFinishing, divisor);
  }
  Status status = reduce(out, deadline, divisor);
  clear();
  return status;
}

// Does all work after the sum on pieces of its own, so that only the communicator touches `out`.
// The communicator's guarantee about an abort holds here too.
Status MicroBatchSum::Impl::reduce(std::span<const Buffer> out, Time deadline, double divisor) {
  if (is_tree_of_ranks_ && options_.op == op_ && options_.dtype == mine_->type()) {
    const Buffer value = {mine_->value(0), options_.count, options_.dtype};
    return communicator_.run({Collective::kAllReduce, {&value, 1}, out, op_}, deadline);
  }
  FFDL_RETURN_IF_ERROR(reduce_piece(deadline));
  FFDL_ASSIGN_OR_RETURN(const Buffer piece, settle_piece(divisor));
  const uint64_t behind = piece_count_ * ranks() - options_.count;
  FFDL_ASSIGN_OR_RETURN(std::byte* const behind_the_last,
                        room_for(behind * element_bytes(options_.dtype), behind_the_last_));
  std::vector<Buffer> pieces(out.begin(), out.end());
  pieces.push_back({behind_the_last, behind, options_.dtype});
  return communicator_.run({Collective::kAllGather, {&piece, 1}, pieces}, deadline);
}

Status MicroBatchSum::Impl::reduce_piece(Time deadline) {
  const uint64_t element = element_bytes(mine_->type());
  FFDL_ASSIGN_OR_RETURN(std::byte* const piece, room_for(piece_count_ * element, piece_));
  if (is_tree_of_ranks_) {
    return communicator_.reduce_scatter({mine_->value(0), piece_count_ * ranks(), mine_->type()},
                                        {piece, piece_count_, mine_->type()}, op_, deadline);
  }
  const uint64_t window_bytes =
      options_.device ? base::kDeviceMicroBatchWindowBytes : base::kMicroBatchWindowBytes;
  const uint64_t room = std::max<uint64_t>(window_bytes / (ranks() * nodes_most_ * element), 1);
  for (uint64_t begin = 0; begin < piece_count_; begin += room) {
    FFDL_RETURN_IF_ERROR(reduce_window(begin, std::min(room, piece_count_ - begin), deadline));
  }
  return {};
}

// Sends the same number of blocks from each rank, as all_to_all requires. The blocks that pad a
// rank with fewer nodes are not read.
Status MicroBatchSum::Impl::reduce_window(uint64_t begin, uint64_t count, Time deadline) {
  const DType type = mine_->type();
  const uint64_t element = element_bytes(type);
  const uint64_t blocks = ranks() * nodes_most_;
  FFDL_ASSIGN_OR_RETURN(std::byte* const window, room_for(blocks * count * element, window_));
  FFDL_ASSIGN_OR_RETURN(std::byte* const filler, room_for(count * element, filler_));
  std::vector<Buffer> given;
  for (uint64_t rank = 0; rank < ranks(); ++rank) {
    const uint64_t place = (rank * piece_count_ + begin) * element;
    for (size_t node = 0; node < nodes_most_; ++node) {
      const bool have = node < mine_->nodes().size();
      given.push_back({have ? mine_->value(node) + place : filler, count, type});
    }
  }
  const Buffer got = {window, blocks * count, type};
  FFDL_RETURN_IF_ERROR(communicator_.run({Collective::kAllToAll, given, {&got, 1}}, deadline));
  std::vector<std::byte*> values;
  for (uint64_t rank = 0; rank < ranks(); ++rank) {
    for (uint64_t node = 0; node < nodes_of_[rank]; ++node) {
      values.push_back(window + (rank * nodes_most_ + node) * count * element);
    }
  }
  std::byte* const to = piece_.memory.get() + begin * element;
  return mine_->reduce(values, nodes_, micro_batches_, to, count);
}

Result<Buffer> MicroBatchSum::Impl::settle_piece(double divisor) {
  const Buffer piece = {piece_.memory.get(), piece_count_, mine_->type()};
  Buffer out = piece;
  if (options_.dtype != piece.dtype) {
    out.dtype = options_.dtype;
    FFDL_ASSIGN_OR_RETURN(out.data,
                          room_for(piece_count_ * element_bytes(out.dtype), narrow_piece_));
  }
  std::optional<double> by;
  if (options_.op == ReduceOp::kMean) by = divisor;
  FFDL_RETURN_IF_ERROR(mine_->settle(piece, by, out));
  return out;
}

Result<std::byte*> MicroBatchSum::Impl::room_for(uint64_t bytes, Room& room) {
  if (room.memory == nullptr || room.bytes < bytes) {
    room = {};
    FFDL_ASSIGN_OR_RETURN(room.memory, mine_->allocate(bytes));
    room.bytes = bytes;
  }
  return room.memory.get();
}

std::vector<uint64_t> even_shares(uint64_t micro_batches, int ranks) {
  std::vector<uint64_t> shares(static_cast<size_t>(std::max(ranks, 0)));
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    shares[rank] = micro_batches / shares.size() + (rank < micro_batches % shares.size() ? 1 : 0);
  }
  return shares;
}

Result<std::unique_ptr<MicroBatchSum>> MicroBatchSum::create(Communicator& communicator,
                                                             const MicroBatchOptions& options,
                                                             Time deadline) {
  FFDL_RETURN_IF_ERROR(check_options(options, communicator.world()));
  FFDL_RETURN_IF_ERROR(check_device(options, communicator.backend()));
  auto chosen = base::choose_gpu(options.device, options.devices);
  if (!chosen.ok()) return std::move(chosen).status().with_context(kCreating);
  auto impl = std::make_unique<Impl>(communicator, options, *std::move(chosen));
  FFDL_RETURN_IF_ERROR(impl->agree(deadline));
  return std::unique_ptr<MicroBatchSum>(new MicroBatchSum(std::move(impl)));
}

MicroBatchSum::MicroBatchSum(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MicroBatchSum::~MicroBatchSum() = default;

uint64_t MicroBatchSum::begin() const { return impl_->begin(); }
uint64_t MicroBatchSum::end() const { return impl_->end(); }

Status MicroBatchSum::add(std::span<const Buffer> gradient) { return impl_->add(gradient); }

void MicroBatchSum::clear() { impl_->clear(); }

Status MicroBatchSum::finish(std::span<const Buffer> out, Time deadline,
                             std::optional<double> weight) {
  return impl_->finish(out, deadline, weight);
}

}  // namespace ffdl
