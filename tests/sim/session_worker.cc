#include "sim/session_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/protocol_version.h"
#include "elastic/checkpoint/checkpoint_folder.h"
#include "elastic/session/rescale.h"
#include "elastic/state/hash.h"

namespace ffdl::sim {

using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBatchMax = 5;
constexpr uint64_t kMicroBatch = 2;
constexpr const char* kCheckpoints = "/checkpoints";
constexpr size_t kBuckets = 3;
constexpr double kGradientStep = 1000;

template <class... Numbers>
uint64_t mix(Numbers... numbers) {
  elastic::Hash hash;
  (hash.add(&numbers, sizeof numbers), ...);
  return hash.digest();
}

// Returns the gradient of a range: small numbers per sample, so that sums of them are exact.
uint64_t value_of(const SampleRange& range) {
  uint64_t sum = 0;
  for (uint64_t i = range.begin; i < range.end; ++i)
    sum += mix(uint64_t{range.partition}, i) % 1000;
  return sum;
}

uint64_t samples_in(std::span<const SampleRange> ranges) {
  uint64_t samples = 0;
  for (const SampleRange& range : ranges) samples += range.end - range.begin;
  return samples;
}

// Takes the first micro-batch of the rest of `ranges`.
std::vector<SampleRange> next_micro_batch(std::vector<SampleRange>& ranges) {
  std::vector<SampleRange> batch;
  uint64_t missing = kMicroBatch;
  while (missing > 0 && !ranges.empty()) {
    SampleRange& front = ranges.front();
    const uint64_t end = std::min(front.begin + missing, front.end);
    batch.push_back({front.partition, front.begin, end});
    missing -= end - front.begin;
    front.begin = end;
    if (front.begin == front.end) ranges.erase(ranges.begin());
  }
  return batch;
}

}  // namespace

// --- Chain ---------------------------------------------------------------------------------------

Chain::Chain(Shared& shared)
    : shared_(shared), gradients_(shared.training == Training::kBuckets ? kBuckets : 1) {}

std::vector<Buffer> Chain::gradients() {
  std::vector<Buffer> buffers;
  for (double& gradient : gradients_) buffers.push_back({&gradient, 1, DType::kFloat64});
  return buffers;
}

void Chain::compute() { gradients_.front() = static_cast<double>(shared_.runtime.below(1U << 20)); }

// Makes each gradient of another size, so that one is not confused with another.
void Chain::compute(std::span<const SampleRange> ranges, size_t which) {
  uint64_t sum = 0;
  for (const SampleRange& range : ranges) sum += value_of(range);
  const auto samples = static_cast<double>(std::max<uint64_t>(samples_in(ranges), 1));
  gradients_[which] =
      static_cast<double>(sum) / samples + kGradientStep * static_cast<double>(which);
}

void Chain::check_samples(const CommittedStep& committed) {
  const auto made = sums_.find(committed.step);
  if (shared_.training == Training::kNumbers || made == sums_.end()) return;
  uint64_t sum = 0;
  for (const auto& part : committed.parts) sum += value_of(part.range);
  if (sum != made->second) {
    shared_.checker.violation(
        fmt::format("step {} commits other samples than its gradient is of", committed.step));
  }
}

// Returns the sum over the samples of the step, from the averaged gradients.
uint64_t Chain::sum_over(uint64_t samples) {
  std::vector<uint64_t> sums;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const double mean = gradients_[i] - kGradientStep * static_cast<double>(i);
    sums.push_back(static_cast<uint64_t>(std::llround(mean * static_cast<double>(samples))));
    if (sums.back() != sums.front()) {
      shared_.checker.violation("the buckets of a step are of different samples");
    }
  }
  return sums.front();
}

uint64_t Chain::name_of(int64_t model, uint64_t records) {
  return model == 0 && records == 0 ? 0 : mix(model, records);
}

void Chain::apply() {
  before_ = name();
  has_applied_ = true;
  for (const double gradient : gradients_) model_ = static_cast<int64_t>(mix(model_, gradient));
}

void Chain::write_record(std::span<std::byte> record) {
  const uint64_t number = shared_.runtime.random();
  std::memcpy(record.data(), &number, sizeof number);
}

void Chain::applied(uint64_t step, const StepRecords& records) {
  const uint64_t before = has_applied_ ? before_ : name();
  uint64_t samples = 0;
  for (int rank = 0; rank < records.size(); ++rank) samples += records.samples(rank);
  sums_.erase(step);
  if (has_applied_) sums_[step] = sum_over(samples);
  has_applied_ = false;
  last_apply_ = world_.generation;
  for (int rank = 0; rank < records.size(); ++rank) {
    uint64_t number = 0;
    std::memcpy(&number, records.of(rank).data(), sizeof number);
    records_ = mix(records_, number);
  }
  shared_.checker.on_act(world_);
  shared_.checker.on_step(before, name(), step);
}

void Chain::on_world(const World& world) {
  world_ = world;
  is_whole_ = !world.begins_anew() || world.continues > 0;  // a new initial state is not reported
  if (world.begins_anew()) first_step_ = shared_.checker.steps(name()).size();
  if (world.generation == 0) return;  // the job is done, and the member is alone with its state
  shared_.checker.on_seen(world.generation, world.members);
  shared_.checker.on_base(world.generation,
                          {world.lineage, world.generation, shared_.checker.steps(name())});
}

Status Chain::begin_anew() {
  model_ = 0;
  return {};
}

void Chain::stable(uint64_t step) {
  stable_step_ = step;
  is_whole_ = true;
  const auto& steps = shared_.checker.steps(name());
  if (steps.size() != step) {
    shared_.checker.violation("a session's step counter is not the number of its steps");
  }
  shared_.checker.on_stable(world_, steps);
}

std::vector<std::byte> Chain::save() const {
  std::vector<std::byte> bytes(sizeof records_);
  std::memcpy(bytes.data(), &records_, sizeof records_);
  return bytes;
}

Status Chain::restore(std::span<const std::byte> bytes) {
  sums_.clear();
  if (shared_.mutant != Mutant::kParticipantApart) {
    std::memcpy(&records_, bytes.data(), sizeof records_);
  }
  return {};
}

std::optional<State> read_checkpoint(testing::MemoryFiles& disk, const Checker& checker,
                                     const CheckpointPointer& pointer) {
  int64_t model = 0;
  const std::vector<Buffer> into = {{&model, 1, DType::kInt64}};
  const elastic::CheckpointFolder folder(disk, kCheckpoints);
  elastic::HostMemory memory;
  const auto loaded = folder.load({pointer.manifest, pointer.hash},
                                  elastic::describe_tensors(into, {}).value(), memory, into);
  // The first participant's data, behind its length.
  uint64_t parts[2] = {};
  if (!loaded.ok() || loaded->participants.size() < sizeof parts) return std::nullopt;
  std::memcpy(parts, loaded->participants.data(), sizeof parts);
  return State{loaded->lineage, loaded->generation, checker.steps(Chain::name_of(model, parts[1]))};
}

// --- SessionWorker -------------------------------------------------------------------------------

SessionWorker::SessionWorker(Shared& shared, SimNode& node, std::unique_ptr<FaultyStore> store,
                             std::string id, std::string takes_over_from)
    : Process(node, std::move(store), std::move(id), std::move(takes_over_from)),
      shared_(shared),
      runtime_(shared.runtime) {
  const Checkpointing& disk = shared_.checkpointing;
  if (disk.disk != nullptr) {
    files_ = std::make_unique<SimFiles>(*disk.disk, runtime_, node_, disk.faults, shared_.mutant);
  }
  task_ = node_.spawn("user", [this](const StopToken&) {
    run();
    has_ended_ = true;
  });
}

void SessionWorker::run() {
  bool has_left = false;
  while (!node_.is_killed() && !has_left) {
    const Status ended = live();
    // The job is done, and its last state is lost: there is nothing to do.
    has_left = ended.ok() || ended.code() == StatusCode::kNotFound;
    session_.reset();
    if (node_.is_killed()) return;
    if (ended.code() == StatusCode::kInternal || ended.code() == StatusCode::kInvalidArgument ||
        ended.code() == StatusCode::kCorrupt) {
      shared_.checker.violation(ended.to_string());
    }
    runtime_.sleep(runtime_.up_to(100ms));
  }
}

// Runs until the life of the session or the process ends. Returns OK if the member has left.
Status SessionWorker::live() {
  Chain chain(shared_);
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_ledger(chain));
  FFDL_ASSIGN_OR_RETURN(session_, Session::open(options(chain, *ledger), chain, *store_, node_));
  while (!node_.is_killed()) {
    const Pace& pace = shared_.pace;
    runtime_.sleep(runtime_.chance(pace.hang) ? runtime_.up_to(8s)
                                              : runtime_.up_to(pace.compute_max));
    if (is_leaving_) session_->ask_to_leave();
    if (ledger->is_done()) {
      is_finishing_ = true;
      const Status finished = finish(chain);
      is_finishing_ = false;
      if (finished.code() != StatusCode::kWorldChanged) return finished;
      continue;
    }
    FFDL_ASSIGN_OR_RETURN(const StepResult result, make_step(chain, *ledger));
    if (result == StepResult::kLeft) return {};
  }
  return base::make_error(StatusCode::kCancelled, "killed");
}

Status SessionWorker::finish(const Chain& chain) {
  FFDL_RETURN_IF_ERROR(session_->finish());
  if (!session_->is_finished()) return {};  // it was asked to leave
  if (chain.stable_step() != session_->step()) {
    shared_.checker.violation("a member ends that was not told that its last step is stable");
  }
  shared_.checker.on_finished(chain.world().lineage, shared_.checker.steps(chain.name()));
  return {};
}

Result<StepResult> SessionWorker::make_step(Chain& chain, SampleLedger& ledger) {
  const bool is_on_demand =
      shared_.training != Training::kGlobal && shared_.training != Training::kMicroBatches;
  if (shared_.training == Training::kNumbers) chain.compute();
  const uint64_t count = is_on_demand ? runtime_.below(kBatchMax + 1) : SampleLedger::kAll;
  FFDL_ASSIGN_OR_RETURN(auto taken, ledger.take(count));
  if (shared_.training == Training::kMicroBatches) {
    while (!taken.empty()) {
      const auto batch = next_micro_batch(taken);
      chain.compute(batch);
      FFDL_RETURN_IF_ERROR(session_->add_micro_batch(samples_in(batch)));
    }
  } else if (shared_.training == Training::kBuckets) {
    FFDL_RETURN_IF_ERROR(compute_buckets(chain, ledger, taken));
  } else if (shared_.training != Training::kNumbers) {
    chain.compute(taken);
  }
  return session_->end_step(ledger.taken());
}

// Begins the average of some gradients early. Each member chooses its own number.
Status SessionWorker::compute_buckets(Chain& chain, SampleLedger& ledger,
                                      std::span<const SampleRange> taken) {
  const uint64_t early = runtime_.below(chain.gradient_count() + 1);
  for (size_t i = 0; i < chain.gradient_count(); ++i) {
    runtime_.sleep(runtime_.up_to(shared_.pace.compute_max / 4));
    chain.compute(taken, i);
    if (i < early) FFDL_RETURN_IF_ERROR(session_->begin_average(i + 1, ledger.taken()));
  }
  return {};
}

Result<std::unique_ptr<SampleLedger>> SessionWorker::make_ledger(Chain& chain) {
  LedgerOptions options;
  options.samples = data_set().samples;
  options.partition_samples = data_set().partition_samples;
  options.epochs = shared_.epochs;
  LedgerMemberOptions member;
  member.on_stable = [this, &chain](const CommittedStep& step) {
    const bool is_base = chain.world().lineage > 1 && step.step == chain.first_step();
    if (shared_.mutant == Mutant::kBaseNotTold && is_base) return;
    shared_.checker.on_committed(chain.world().lineage, step);
    chain.check_samples(step);
  };
  if (shared_.training == Training::kGlobal || shared_.training == Training::kMicroBatches) {
    options.order = SampleOrder::kGlobal;
    options.batch_samples = 6 * kMicroBatch;
    options.micro_batch_samples = kMicroBatch;
  }
  return make_session_ledger(options, member);
}

SessionOptions SessionWorker::options(Chain& chain, SampleLedger& ledger) {
  SessionOptions options;
  options.self = {id_, 0, id_ + ":1"};
  options.membership = shared_.options;
  options.membership.takes_over_from = takes_over_from_;
  options.participants = {&chain, ledger.participant()};
  if (shared_.training == Training::kMicroBatches) {
    options.micro_batch_shares = [&ledger] { return ledger.shares(); };
    options.micro_batch_samples = kMicroBatch;
  }
  if (files_) {
    options.checkpoints.folder = kCheckpoints;
    options.checkpoints.every_steps = shared_.checkpointing.every_steps;
    options.checkpoints.keep_last = shared_.checkpointing.keep_last;
    options.checkpoints.files = files_.get();
  }
  if (shared_.training == Training::kBuckets) options.bucket_bytes = 1;
  options.operation_timeout = shared_.operation_timeout;
  options.recovery_timeout = 60s;
  options.verify_state = runtime_.chance(0.5);
  options.connect = [this, &chain](const World& world, Time deadline, const ConnectWatch& watch) {
    return SimCommunicator::connect(world, deadline, watch, shared_.exchange, runtime_, node_,
                                    hooks(world, chain));
  };
  return options;
}

SimCommunicator::Hooks SessionWorker::hooks(const World& world, Chain& chain) {
  SimCommunicator::Hooks hooks;
  hooks.fail = shared_.pace.fail;
  hooks.is_first_bucket_all = shared_.mutant == Mutant::kFirstBucket;
  hooks.waits_in_old_world = shared_.mutant == Mutant::kWaitsInOldWorld;
  hooks.state = [&chain] { return chain.name(); };
  hooks.sum = [this](const std::vector<uint64_t>& states) {
    for (const uint64_t state : states) {
      if (state != states.front()) shared_.checker.violation("I6: one sum of different states");
    }
  };
  hooks.act = [this, world] { shared_.checker.on_act(world); };
  // Changes the only message of a report's size that begins as a report does and continues with a
  // hash.
  hooks.tamper = [this, &chain, world](std::vector<std::byte>& bytes) {
    if (bytes.size() != sizeof(elastic::Report)) return;
    elastic::Report report;
    std::memcpy(&report, bytes.data(), sizeof report);
    if (report.format != base::kProtocolVersion || report.model <= UINT32_MAX) return;
    if (world.begins_anew() && shared_.options.recovery == Recovery::kForward) {
      check_held(world, chain, report);
    }
    if (shared_.mutant == Mutant::kStepAlone) report.generation = 0;
    if (shared_.mutant == Mutant::kLastApply) report.generation = chain.last_apply();
    std::memcpy(bytes.data(), &report, sizeof report);
  };
  return hooks;
}

// Checks that a member that enters a world that begins a lineage reports its complete state, unless
// it is the initial one. Where no world of that lineage was active, the state may be a new one,
// which is not reported.
void SessionWorker::check_held(const World& world, Chain& chain, elastic::Report& report) {
  const bool is_first = chain.reported() != world.generation;
  const bool has_steps = !shared_.checker.steps(chain.name()).empty();
  const bool is_of_earlier =
      chain.is_whole() && has_steps && chain.world().lineage < world.lineage;
  if (is_first && is_of_earlier && report.holds == 0) {
    shared_.checker.violation(fmt::format("'{}' does not report the state that it holds", id_));
  }
  const StateLabel label = report.label();
  const auto& record = shared_.checker.record();
  const auto saved = record ? record->restart_base : std::nullopt;
  const bool is_old = saved && label < saved->label();
  chain.note_report(world.generation, is_old);
  if (report.holds == 0) return;
  shared_.checker.on_held(world.generation, label, shared_.checker.steps(chain.name()));
  if (shared_.mutant == Mutant::kVoidsLiveState) report.holds = 0;
  if (shared_.mutant == Mutant::kOlderBase) report.generation = UINT32_MAX - report.generation;
  if (shared_.mutant == Mutant::kBehindCheckpoint) ++report.lineage;
}

}  // namespace ffdl::sim
