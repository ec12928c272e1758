#include "ffdl/micro_batch_sum.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/half_kernels.h"
#include "base/limits.h"
#include "comm/request.h"
#include "comm/subtree_values.h"
#include "comm/tree_reduce.h"

namespace ffdl {

using base::invalid_argument;

namespace {

constexpr std::string_view kCreating = "create a sum of micro-batches";

Status check_options(const MicroBatchOptions& options, const World& world) {
  if (options.shares.size() != world.members.size()) {
    return invalid_argument("{}: {} shares for {} ranks; give one to each", kCreating,
                            options.shares.size(), world.size());
  }
  uint64_t micro_batches = 0;
  for (const uint64_t share : options.shares) {
    micro_batches += std::min(share, base::kMicroBatchesMax + 1);
  }
  if (micro_batches == 0 || micro_batches > base::kMicroBatchesMax) {
    return invalid_argument("{}: {} in a step; share out 1 to {}", kCreating,
                            micro_batches == 0 ? "none" : "too many", base::kMicroBatchesMax);
  }
  // Only looked at: an all_reduce of that many elements somewhere.
  const Buffer any = {&micro_batches, options.count, options.dtype};
  const auto possible =
      comm::check_operation({Collective::kAllReduce, {}, {&any, 1}, options.op}, world);
  return possible.ok() ? Status() : Status(possible.status()).with_context(kCreating);
}

// What all ranks must agree on, as they tell each other.
std::vector<int64_t> claim_of(const MicroBatchOptions& options) {
  std::vector<int64_t> claim = {static_cast<int64_t>(options.op),
                                static_cast<int64_t>(options.dtype),
                                static_cast<int64_t>(options.count)};
  claim.insert(claim.end(), options.shares.begin(), options.shares.end());
  return claim;
}

std::string describe_claim(std::span<const int64_t> claim) {
  const comm::Signature signature = {.kind = Collective::kAllReduce,
                                     .reduce = static_cast<ReduceOp>(claim[0]),
                                     .root = 0,
                                     .dtype = static_cast<DType>(claim[1]),
                                     .block = static_cast<uint64_t>(claim[2])};
  return fmt::format("{} for shares of {}", describe(signature), fmt::join(claim.subspan(3), ", "));
}

}  // namespace

class MicroBatchSum::Impl {
 public:
  Impl(Communicator& communicator, const MicroBatchOptions& options);

  Status agree(Time deadline);
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + share(); }
  Status add(std::span<const Buffer> gradient);
  Status finish(std::span<const Buffer> out, Time deadline, std::optional<double> weight);

 private:
  uint64_t ranks() const { return options_.shares.size(); }
  size_t rank() const { return static_cast<size_t>(communicator_.world().rank); }
  uint64_t share() const { return options_.shares[rank()]; }
  Status check_list(std::span<const Buffer> list, std::string_view doing) const;
  Status reduce(std::span<const Buffer> out, Time deadline, double divisor);
  // Of all micro-batches, this rank's piece: into `piece_`.
  Status reduce_piece(Time deadline);
  // Of that piece, elements [begin, begin + count), from the nodes of all ranks.
  Status reduce_window(uint64_t begin, uint64_t count, Time deadline);
  // The piece as it goes to all.
  Buffer settle_piece(double divisor);

  Communicator& communicator_;
  const MicroBatchOptions options_;
  const ReduceOp op_;  // kSum for a mean, which is divided in the end
  uint64_t micro_batches_ = 0;
  uint64_t begin_ = 0;
  std::vector<comm::Subtree> nodes_;  // of all ranks
  std::vector<uint64_t> nodes_of_;    // how many each rank has
  uint64_t nodes_most_ = 0;           // of one rank
  bool is_tree_of_ranks_ = false;
  const uint64_t piece_count_;  // elements that each rank reduces; some behind the last are zeros
  comm::SubtreeValues mine_;
  uint64_t added_ = 0;
  std::vector<std::byte> piece_;
  std::vector<uint16_t> narrow_piece_;
  std::vector<std::byte> window_;
  std::vector<std::byte> filler_;
};

MicroBatchSum::Impl::Impl(Communicator& communicator, const MicroBatchOptions& options)
    : communicator_(communicator),
      options_(options),
      op_(options.op == ReduceOp::kMean ? ReduceOp::kSum : options.op),
      micro_batches_(std::accumulate(options.shares.begin(), options.shares.end(), uint64_t{0})),
      piece_count_((options.count + options.shares.size() - 1) / options.shares.size()),
      mine_(op_, options.dtype, options.count, piece_count_ * options.shares.size()) {
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
  is_tree_of_ranks_ = std::ranges::all_of(nodes_of_, [](uint64_t nodes) { return nodes == 1; }) &&
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
  return invalid_argument("{}: {} elements; gradients have {} here", doing, count, options_.count);
}

Status MicroBatchSum::Impl::add(std::span<const Buffer> gradient) {
  FFDL_RETURN_IF_ERROR(check_list(gradient, "add a micro-batch"));
  if (added_ == share()) {
    return invalid_argument("add a micro-batch: all {} of rank {} are there; finish the step",
                            share(), rank());
  }
  mine_.add(begin_ + added_, micro_batches_, gradient);
  ++added_;
  return {};
}

Status MicroBatchSum::Impl::finish(std::span<const Buffer> out, Time deadline,
                                   std::optional<double> weight) {
  constexpr std::string_view kFinishing = "finish a step of micro-batches";
  FFDL_RETURN_IF_ERROR(check_list(out, kFinishing));
  if (added_ != share()) {
    return invalid_argument("{}: {} of the {} of rank {} have been added; add the others",
                            kFinishing, added_, share(), rank());
  }
  if (weight.has_value() && options_.op != ReduceOp::kMean) {
    return invalid_argument("{}: a weight, but no mean to divide by it", kFinishing);
  }
  const double divisor = weight.value_or(static_cast<double>(micro_batches_));
  if (!(divisor > 0 && std::isfinite(divisor))) {
    return invalid_argument("{}: the weight {}; give a number above 0", kFinishing, divisor);
  }
  Status status = reduce(out, deadline, divisor);
  mine_.clear();
  added_ = 0;
  return status;
}

// Whatever remains to be done with a sum is done with pieces of our own, so that only the
// communicator touches `out`: what it promises about an abort holds here too.
Status MicroBatchSum::Impl::reduce(std::span<const Buffer> out, Time deadline, double divisor) {
  if (is_tree_of_ranks_ && options_.op == op_ && options_.dtype == mine_.type()) {
    const Buffer value = {mine_.value(0), options_.count, options_.dtype};
    return communicator_.run({Collective::kAllReduce, {&value, 1}, out, op_}, deadline);
  }
  FFDL_RETURN_IF_ERROR(reduce_piece(deadline));
  const Buffer piece = settle_piece(divisor);
  std::vector<std::byte> behind_the_last((piece_count_ * ranks() - options_.count) *
                                         element_bytes(options_.dtype));
  std::vector<Buffer> pieces(out.begin(), out.end());
  pieces.push_back({behind_the_last.data(), behind_the_last.size() / element_bytes(options_.dtype),
                    options_.dtype});
  return communicator_.run({Collective::kAllGather, {&piece, 1}, pieces}, deadline);
}

Status MicroBatchSum::Impl::reduce_piece(Time deadline) {
  const uint64_t element = element_bytes(mine_.type());
  piece_.resize(piece_count_ * element);
  if (is_tree_of_ranks_) {
    return communicator_.reduce_scatter({mine_.value(0), piece_count_ * ranks(), mine_.type()},
                                        {piece_.data(), piece_count_, mine_.type()}, op_, deadline);
  }
  const uint64_t room =
      std::max<uint64_t>(base::kMicroBatchWindowBytes / (ranks() * nodes_most_ * element), 1);
  for (uint64_t begin = 0; begin < piece_count_; begin += room) {
    FFDL_RETURN_IF_ERROR(reduce_window(begin, std::min(room, piece_count_ - begin), deadline));
  }
  return {};
}

// All give as many blocks, as all_to_all wants it; nobody looks at what fills those of a rank with
// fewer nodes.
Status MicroBatchSum::Impl::reduce_window(uint64_t begin, uint64_t count, Time deadline) {
  const DType type = mine_.type();
  const uint64_t element = element_bytes(type);
  const uint64_t blocks = ranks() * nodes_most_;
  window_.resize(blocks * count * element);
  filler_.resize(count * element);
  std::vector<Buffer> given;
  for (uint64_t rank = 0; rank < ranks(); ++rank) {
    const uint64_t place = (rank * piece_count_ + begin) * element;
    for (size_t node = 0; node < nodes_most_; ++node) {
      const bool have = node < mine_.nodes().size();
      given.push_back({have ? mine_.value(node) + place : filler_.data(), count, type});
    }
  }
  const Buffer got = {window_.data(), blocks * count, type};
  FFDL_RETURN_IF_ERROR(communicator_.run({Collective::kAllToAll, given, {&got, 1}}, deadline));
  std::vector<const std::byte*> values;
  for (uint64_t rank = 0; rank < ranks(); ++rank) {
    for (uint64_t node = 0; node < nodes_of_[rank]; ++node) {
      values.push_back(window_.data() + (rank * nodes_most_ + node) * count * element);
    }
  }
  tree_reduce(op_, type, values, nodes_, micro_batches_, piece_.data() + begin * element, count);
  return {};
}

Buffer MicroBatchSum::Impl::settle_piece(double divisor) {
  const DType type = mine_.type();
  const Buffer piece = {piece_.data(), piece_count_, type};
  if (options_.op == ReduceOp::kMean) comm::divide(piece, divisor);
  if (options_.dtype == type) return piece;
  narrow_piece_.resize(piece_count_);
  base::narrow(options_.dtype, reinterpret_cast<const float*>(piece_.data()), narrow_piece_.data(),
               piece_count_);
  return {narrow_piece_.data(), piece_count_, options_.dtype};
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
  auto impl = std::make_unique<Impl>(communicator, options);
  FFDL_RETURN_IF_ERROR(impl->agree(deadline));
  return std::unique_ptr<MicroBatchSum>(new MicroBatchSum(std::move(impl)));
}

MicroBatchSum::MicroBatchSum(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MicroBatchSum::~MicroBatchSum() = default;

uint64_t MicroBatchSum::begin() const { return impl_->begin(); }
uint64_t MicroBatchSum::end() const { return impl_->end(); }

Status MicroBatchSum::add(std::span<const Buffer> gradient) { return impl_->add(gradient); }

Status MicroBatchSum::finish(std::span<const Buffer> out, Time deadline,
                             std::optional<double> weight) {
  return impl_->finish(out, deadline, weight);
}

}  // namespace ffdl
