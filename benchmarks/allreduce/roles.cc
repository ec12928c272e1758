#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>

#include "benchmarks/allreduce/floor.h"
#include "benchmarks/allreduce/group.h"
#include "benchmarks/allreduce/rows.h"
#include "benchmarks/harness/folder.h"
#include "benchmarks/harness/memory.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/limits.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/comm/micro_batch_sum.h"

namespace ffdl::bench {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr int kWakingSums = 2;

// One rank of a contender.
class Contender {
 public:
  virtual ~Contender() = default;
  // Returns the buffer that the rank rewrites before each sum. It is created and touched at first
  // use.
  virtual std::span<float> buffer(uint64_t bytes) = 0;
  virtual Status all_reduce(std::span<float> values) = 0;
  virtual Status all_reduce_list(std::span<float> values) { return all_reduce(values); }
  // Returns the result of a sum of ones.
  virtual float result_of_ones(int ranks) const { return static_cast<float>(ranks); }
};

// The hand-written floor. Both buffers of every size are created before the fork.
class Floor final : public Contender {
 public:
  static constexpr uint64_t kBytesMax = uint64_t{100} << 20;

  Floor() : lines_(sizeof(FloorLines), Memory::Sharing::kWithChildren) {
    for (int i = 0; i < 2; ++i) buffers_.emplace_back(kBytesMax, Memory::Sharing::kWithChildren);
    new (lines_.data()) FloorLines;
  }
  void play(int rank) { rank_ = rank; }

  std::span<float> buffer(uint64_t bytes) override { return part(rank_, bytes); }
  Status all_reduce(std::span<float> values) override {
    auto& lines = *static_cast<FloorLines*>(lines_.data());
    floor_meet(lines, rank_, ++step_);
    floor_add(values, part(1 - rank_, values.size_bytes()), rank_);
    floor_meet(lines, rank_, ++step_);
    return {};
  }

 private:
  std::span<float> part(int rank, uint64_t bytes) const {
    return buffers_[static_cast<size_t>(rank)].floats().first(bytes / sizeof(float));
  }

  Memory lines_;
  std::vector<Memory> buffers_;
  int rank_ = 0;
  uint64_t step_ = 0;
};

// Contenders over the loopback interface.
CommunicatorOptions options_of(const std::string& contender) {
  if (contender == "tcp") return {.backend = Backend::kTcp};
  if (contender == "tls") return {.backend = Backend::kTcp, .tls = true};
  if (contender == "gloo_links") return {.backend = Backend::kGloo};
  return {};
}

Result<std::unique_ptr<Communicator>> connect(const std::string& contender, int rank, int ranks,
                                              const std::string& folder) {
  World world = {.generation = 1, .rank = rank, .members = {}};
  for (int i = 0; i < ranks; ++i) world.members.push_back({fmt::format("rank{}", i), 1});
  FFDL_ASSIGN_OR_RETURN(auto store, open_store("file://" + folder, system_runtime()));
  return connect_communicator(world, *store, deadline_in(kPatience), options_of(contender));
}

class Ours final : public Contender {
 public:
  Ours(std::unique_ptr<Communicator> communicator, bool shared)
      : communicator_(std::move(communicator)), shared_(shared) {}

  std::span<float> buffer(uint64_t bytes) override {
    auto& place = buffers_[bytes];
    if (place.empty()) place = make(bytes);
    return place;
  }
  Status all_reduce(std::span<float> values) override {
    return communicator_->all_reduce({values.data(), values.size()}, ReduceOp::kSum,
                                     deadline_in(kPatience));
  }
  Status all_reduce_list(std::span<float> values) override {
    return communicator_->all_reduce(tensors_of(values), ReduceOp::kSum, deadline_in(kPatience));
  }

 private:
  std::span<float> make(uint64_t bytes) {
    if (!shared_) return private_.emplace_back(bytes).floats().first(bytes / sizeof(float));
    auto memory = SharedMemory::allocate(bytes);
    if (!memory.ok() || !communicator_->register_memory(*memory).ok()) return {};
    shared_memory_.push_back(*memory);
    return {reinterpret_cast<float*>((*memory)->data()), bytes / sizeof(float)};
  }

  // Returns 160 tensors like those of a small transformer. Each block has four square and two wide
  // matrices and ten vectors, with 1/10 of the floats.
  static const std::vector<Buffer>& tensors_of(std::span<float> values) {
    static std::vector<Buffer> tensors;
    tensors.clear();
    constexpr std::array<uint64_t, 16> kShares = {1, 1, 1, 1, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    constexpr uint64_t kBlocks = 10;
    constexpr uint64_t kVector = 128;
    const uint64_t square = (values.size() / kBlocks - 10 * kVector) / 12;
    uint64_t begin = 0;
    for (uint64_t block = 0; block < kBlocks; ++block) {
      for (const uint64_t share : kShares) {
        const bool last = tensors.size() + 1 == kBlocks * kShares.size();
        const uint64_t count = last ? values.size() - begin : share ? share * square : kVector;
        tensors.push_back({values.data() + begin, count});
        begin += count;
      }
    }
    return tensors;
  }

  std::unique_ptr<Communicator> communicator_;
  bool shared_;
  std::map<uint64_t, std::span<float>> buffers_;
  std::vector<Memory> private_;
  std::vector<std::shared_ptr<SharedMemory>> shared_memory_;
};

// Eight micro-batches in a step, all with the same gradient. A rank adds those of its share, and
// then all ranks add theirs, either way.
class MicroBatches : public Contender {
 public:
  explicit MicroBatches(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)),
        shares_(even_shares(kMicroBatches, communicator_->world().size())) {}

  std::span<float> buffer(uint64_t bytes) override {
    auto place = buffers_.find(bytes);
    if (place == buffers_.end()) place = buffers_.emplace(bytes, Memory(bytes)).first;
    return place->second.floats().first(bytes / sizeof(float));
  }

 protected:
  static constexpr uint64_t kMicroBatches = 8;

  Communicator& communicator() { return *communicator_; }
  const std::vector<uint64_t>& shares() const { return shares_; }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::vector<uint64_t> shares_;
  std::map<uint64_t, Memory> buffers_;
};

class SameBits final : public MicroBatches {
 public:
  using MicroBatches::MicroBatches;

  std::span<float> buffer(uint64_t bytes) override {
    auto& sum = sums_[bytes];
    if (sum == nullptr) {
      auto made = MicroBatchSum::create(communicator(),
                                        {.shares = shares(), .count = bytes / sizeof(float)},
                                        deadline_in(kPatience));
      if (!made.ok()) return {};
      sum = std::move(made).value();
    }
    return MicroBatches::buffer(bytes);
  }
  Status all_reduce(std::span<float> values) override {
    MicroBatchSum& sum = *sums_.at(values.size_bytes());
    const Buffer gradient = {values.data(), values.size()};
    for (uint64_t i = sum.begin(); i < sum.end(); ++i) FFDL_RETURN_IF_ERROR(sum.add(gradient));
    return sum.finish(gradient, deadline_in(kPatience));
  }
  float result_of_ones(int) const override { return 1; }

 private:
  std::map<uint64_t, std::unique_ptr<MicroBatchSum>> sums_;
};

// The sum of a training loop that requires no order of additions.
class AnyBits final : public MicroBatches {
 public:
  using MicroBatches::MicroBatches;

  Status all_reduce(std::span<float> values) override {
    total_.assign(values.begin(), values.end());
    const auto rank = static_cast<size_t>(communicator().world().rank);
    for (uint64_t i = 1; i < shares()[rank]; ++i) accumulate(total_, values);
    return communicator().all_reduce({total_.data(), total_.size()}, {values.data(), values.size()},
                                     ReduceOp::kSum, deadline_in(kPatience));
  }
  float result_of_ones(int) const override { return kMicroBatches; }

 private:
  std::vector<float> total_;
};

std::unique_ptr<Contender> make_contender(const std::string& name,
                                          std::unique_ptr<Communicator> communicator) {
  if (name == "same_bits") return std::make_unique<SameBits>(std::move(communicator));
  if (name == "any_bits") return std::make_unique<AnyBits>(std::move(communicator));
  return std::make_unique<Ours>(std::move(communicator), name == "shm_shared");
}

Status sum(Contender& contender, std::span<float> values, bool list) {
  std::ranges::fill(values, 1.0F);
  return list ? contender.all_reduce_list(values) : contender.all_reduce(values);
}

Result<double> play_turn(Contender& contender, const Sums& turn, int ranks) {
  const std::span<float> values = contender.buffer(turn.bytes);
  if (values.empty()) return Status(StatusCode::kExhausted, "no memory for the buffers");
  Status status;
  for (int i = 0; i < kWakingSums && status.ok(); ++i) status = sum(contender, values, turn.list);
  const double seconds = seconds_of([&] {
    for (int i = 0; i < turn.count && status.ok(); ++i) status = sum(contender, values, turn.list);
  });
  FFDL_RETURN_IF_ERROR(std::move(status));
  const float wanted = contender.result_of_ones(ranks);
  const bool right = std::ranges::all_of(values, [=](float value) { return value == wanted; });
  return right ? Result<double>(seconds) : Status(StatusCode::kInternal, "a wrong sum");
}

Status play(const std::string& name, int ranks) {
  FFDL_ASSIGN_OR_RETURN(const std::string folder, make_folder());
  std::unique_ptr<Contender> contender;
  auto floor = name == "floor" ? std::make_unique<Floor>() : nullptr;
  Group group(ranks);
  const std::vector<int> cpus = processors();
  if (static_cast<size_t>(ranks) <= cpus.size()) stay_on({cpus[static_cast<size_t>(group.rank())]});
  if (floor) {
    floor->play(group.rank());
    contender = std::move(floor);
  } else {
    FFDL_ASSIGN_OR_RETURN(auto communicator, connect(name, group.rank(), ranks, folder));
    contender = make_contender(name, std::move(communicator));
  }
  group.answer("ready");
  while (const std::optional<Sums> turn = group.next()) {
    FFDL_ASSIGN_OR_RETURN(const double seconds, play_turn(*contender, *turn, ranks));
    group.answer(fmt::format("{}", seconds));
  }
  if (group.rank() == 0) std::filesystem::remove_all(folder);
  return {};
}

}  // namespace

int play_role(const std::vector<std::string>& arguments) {
  const Status status = arguments.size() == 2
                            ? play(arguments[0], std::stoi(arguments[1]))
                            : Status(StatusCode::kInvalidArgument, "give CONTENDER RANKS");
  if (!status.ok()) fmt::print(stderr, "play a contender: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}

}  // namespace ffdl::bench
