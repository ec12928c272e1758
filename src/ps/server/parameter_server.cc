#include "ffdl/ps/parameter_server.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/log.h"
#include "ps/server/server_impl.h"

namespace ffdl {
namespace {

using base::invalid_argument;
using base::make_error;
using ps::Config;
using ps::Region;

Status check_options(const ParameterServerOptions& options) {
  if (options.parameters == 0 || options.parameters > base::kParametersMax) {
    return invalid_argument("create parameter server '{}': {} parameters; give 1 to {}",
                            options.name, options.parameters, base::kParametersMax);
  }
  if (options.learners_max < 1 || options.learners_max > base::kLearnersMax) {
    return invalid_argument("create parameter server '{}': learners_max is {}; give 1 to {}",
                            options.name, options.learners_max, base::kLearnersMax);
  }
  if (options.threads < 1 || options.threads > base::kServerThreadsMax) {
    return invalid_argument("create parameter server '{}': {} threads; give 1 to {}", options.name,
                            options.threads, base::kServerThreadsMax);
  }
  if (options.partitions > base::kTableEntriesMax) {
    return invalid_argument("create parameter server '{}': {} partitions; give at most {}",
                            options.name, options.partitions, base::kTableEntriesMax);
  }
  if (options.ranges_max < 1 || options.ranges_max > base::kTableEntriesMax) {
    return invalid_argument("create parameter server '{}': ranges_max is {}; give 1 to {}",
                            options.name, options.ranges_max, base::kTableEntriesMax);
  }
  if (options.rows_max > base::kTableEntriesMax) {
    return invalid_argument("create parameter server '{}': rows_max is {}; give at most {}",
                            options.name, options.rows_max, base::kTableEntriesMax);
  }
  if (!ps::is_gradient_type(options.gradient_type)) {
    return invalid_argument(
        "create parameter server '{}': gradient_type is {}; give float32, bfloat16 or float16",
        options.name, to_string(options.gradient_type));
  }
  // Also refuses NaN, for which no comparison is true.
  if (!(options.clip_value >= 0 && options.clip_norm >= 0)) {
    return invalid_argument(
        "create parameter server '{}': clip_value {} and clip_norm {}; give 0 (off) or more",
        options.name, options.clip_value, options.clip_norm);
  }
  if (options.device && options.synchrony == Synchrony::kBulk) {
    return invalid_argument(
        "create parameter server '{}': a GPU folds no rounds; use another synchrony, or no device",
        options.name);
  }
  if (!(options.schedule.final_factor >= 0)) {
    return invalid_argument(
        "create parameter server '{}': schedule.final_factor is {}; give 0 or more", options.name,
        options.schedule.final_factor);
  }
  return {};
}

Result<std::unique_ptr<UpdateRule>> choose_rule(const UpdateRuleOptions& options,
                                                std::unique_ptr<UpdateRule> custom) {
  if (!custom) return make_update_rule(options);
  if (custom->state_count() < 0 || custom->state_count() > kRuleStateMax) {
    return invalid_argument(
        "use update rule '{}': it keeps {} values per weight; at most {} are kept", custom->name(),
        custom->state_count(), kRuleStateMax);
  }
  if (custom->name().empty() || custom->name().size() >= sizeof(Config::rule_name)) {
    return invalid_argument("use an update rule: its name has {} characters; use 1 to {}",
                            custom->name().size(), sizeof(Config::rule_name) - 1);
  }
  return custom;
}

Config make_config(const ParameterServerOptions& options, const UpdateRule& rule, bool custom,
                   const ps::FoldDevice& device) {
  Config config = {};
  config.parameters = options.parameters;
  const uint64_t blocks = (options.parameters + ps::kBlockFloats - 1) / ps::kBlockFloats;
  // A shard has at least one block: further threads would have no work.
  config.shards =
      static_cast<uint32_t>(std::min<uint64_t>(static_cast<uint64_t>(options.threads), blocks));
  config.learners_max = static_cast<uint32_t>(options.learners_max);
  config.partitions = options.partitions > 0 ? options.partitions : config.learners_max;
  config.ranges_max = options.ranges_max;
  config.rows_max = options.rows_max;
  config.gradient_type = options.gradient_type;
  config.state_count = static_cast<uint32_t>(rule.state_count());
  config.synchrony = options.synchrony;
  config.staleness = options.synchrony == Synchrony::kStale ? options.staleness : 0;
  config.non_finite = options.non_finite;
  config.clip_value = options.clip_value;
  config.clip_norm = options.clip_norm;
  config.rule = options.rule;
  config.custom_rule = custom ? 1 : 0;
  config.device_plus_one = device ? static_cast<uint32_t>(device.gpu.number) + 1 : 0;
  config.schedule = options.schedule;
  rule.name().copy(config.rule_name, sizeof config.rule_name - 1);
  return config;
}

// Checks that the steps of one fold fit the journal: runs of floats, or rows, and the ledger.
Status check_journal_reach(const Config& config) {
  const uint64_t blocks = (config.parameters + ps::kBlockFloats - 1) / ps::kBlockFloats;
  const uint64_t most = (blocks + config.shards - 1) / config.shards;
  const uint64_t steps = most * (ps::kBlockFloats / ps::kRunFloats) + config.rows_max + 1;
  if (steps < uint64_t{1} << 24) return {};
  return invalid_argument(
      "create a parameter server: {} parameters for {} threads; use at least {}", config.parameters,
      config.shards, (blocks >> 20) + 1);
}

Status check_cut(const ParameterServerCut& cut, const Region& region) {
  const Config& config = region.config();
  const auto of_size = [&](const std::vector<float>& values) {
    return values.size() == config.parameters;
  };
  if (!of_size(cut.weights) || cut.state.size() != config.state_count ||
      !std::all_of(cut.state.begin(), cut.state.end(), of_size)) {
    return invalid_argument(
        "continue a parameter server at a cut: the cut has {} weights and {} values per weight, "
        "the "
        "server {} and {}; use the options that the cut was made with",
        cut.weights.size(), cut.state.size(), config.parameters, config.state_count);
  }
  if (cut.rule != config.rule_name) {
    return invalid_argument("continue a parameter server at a cut: made by rule '{}', not '{}'",
                            cut.rule, config.rule_name);
  }
  if (cut.partitions.size() > config.partitions) {
    return invalid_argument("continue a parameter server at a cut: {} partitions, room for {}",
                            cut.partitions.size(), config.partitions);
  }
  return {};
}

void restore_cut(const ParameterServerCut& cut, const Region& region) {
  std::copy(cut.weights.begin(), cut.weights.end(), region.weights());
  for (uint32_t s = 0; s < region.config().state_count; ++s) {
    std::copy(cut.state[s].begin(), cut.state[s].end(), region.state(s));
  }
  for (uint32_t p = 0; p < cut.partitions.size(); ++p) {
    region.ledger(Region::partition_word(p, ps::kCommitted)) = cut.partitions[p].committed;
    region.ledger(Region::partition_word(p, ps::kSamples)) = cut.partitions[p].samples;
    region.ledger(Region::partition_word(p, ps::kRepeated)) = cut.partitions[p].repeated;
    region.ledger(Region::partition_word(p, ps::kMissing)) = cut.partitions[p].missing;
  }
  // Version, schedule and Adam's step follow from the sequences. Slot 0 carries the earlier count.
  region.learner(0).pub = cut.version;
  for (int k = 0; k < region.shards(); ++k) {
    region.folded(k, 0) = cut.version;
    region.shard(k).round_folded = cut.updates;
  }
  region.round().number = cut.updates;
}

}  // namespace

ParameterServer::ParameterServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParameterServer::~ParameterServer() = default;

Result<std::unique_ptr<ParameterServer>> ParameterServer::create(
    const ParameterServerOptions& options, std::unique_ptr<UpdateRule> custom,
    const ParameterServerCut* from) {
  return Impl::create(options, std::move(custom), from, {});
}

Result<std::unique_ptr<ParameterServer>> ParameterServer::Impl::create(
    const ParameterServerOptions& options, std::unique_ptr<UpdateRule> custom,
    const ParameterServerCut* from, const ps::OtherDevices& other) {
  FFDL_RETURN_IF_ERROR(check_options(options));
  const bool is_custom = custom != nullptr;
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<UpdateRule> rule,
                        choose_rule(options.rule, std::move(custom)));
  if (is_custom && options.device) {
    return invalid_argument(
        "create parameter server '{}': a GPU has no kernel for the rule '{}'; use a built-in rule, "
        "or no device",
        options.name, rule->name());
  }
  FFDL_ASSIGN_OR_RETURN(ps::ServerDevice device, ps::ServerDevice::choose(options.device, other));
  const Config config = make_config(options, *rule, is_custom, device.fold());
  FFDL_RETURN_IF_ERROR(check_journal_reach(config));

  shm::SegmentSpec spec;
  spec.name = options.name;
  spec.kind = shm::SegmentKind::kParameterServer;
  spec.layout_version = ps::kLayoutVersion;
  spec.bytes = ps::Offsets(config).total;
  ps::NodeBinding binding =
      ps::NodeBinding::decide(options.bind_to_nodes, static_cast<int>(config.shards));
  if (binding.any()) {
    spec.place = [&](std::byte* memory) { binding.bind_memory(Region(memory, config)); };
  }
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, shm::Segment::create(spec));
  Config& stored = ps::stored_config(segment.data());
  std::memcpy(&stored, &config, sizeof config);
  stored.checksum = ps::config_checksum(stored);
  FFDL_ASSIGN_OR_RETURN(Region region, ps::read_region(segment));
  if (from != nullptr) {
    FFDL_RETURN_IF_ERROR(check_cut(*from, region));
    restore_cut(*from, region);
  }
  // The lock is taken first: no process may take a segment without an owner for a dead server's.
  FFDL_ASSIGN_OR_RETURN(shm::RoleLock owner, shm::RoleLock::acquire(segment.fd(), shm::kOwnerRole));
  FFDL_RETURN_IF_ERROR(segment.publish());
  auto impl = std::make_unique<Impl>(std::move(segment), std::move(owner), region, std::move(rule),
                                     std::move(binding), std::move(device));
  impl->sign();
  return std::unique_ptr<ParameterServer>(new ParameterServer(std::move(impl)));
}

Result<std::unique_ptr<ParameterServer>> ParameterServer::adopt(
    std::string_view name, std::unique_ptr<UpdateRule> custom) {
  return Impl::adopt(name, std::move(custom), {});
}

Result<std::unique_ptr<ParameterServer>> ParameterServer::Impl::adopt(
    std::string_view name, std::unique_ptr<UpdateRule> custom, const ps::OtherDevices& other) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, ps::open_segment(name));
  FFDL_ASSIGN_OR_RETURN(Region region, ps::read_region(segment));
  Result<shm::RoleLock> owner = shm::RoleLock::acquire(segment.fd(), shm::kOwnerRole);
  if (!owner.ok()) {
    return make_error(owner.status().code(),
                      "adopt parameter server '{}': its server (pid {}) lives; stop it first", name,
                      region.server().pid.load());
  }
  FFDL_RETURN_IF_ERROR(segment.check_linked());
  const Config& config = region.config();
  if (config.custom_rule != 0 && !custom) {
    return invalid_argument("adopt parameter server '{}': it uses the custom rule '{}'; pass it",
                            name, config.rule_name);
  }
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<UpdateRule> rule,
                        choose_rule(config.rule, std::move(custom)));
  if (rule->name() != config.rule_name ||
      static_cast<uint32_t>(rule->state_count()) != config.state_count) {
    return invalid_argument("adopt parameter server '{}': it uses the rule '{}', not '{}'", name,
                            config.rule_name, rule->name());
  }
  auto impl = std::make_unique<Impl>(std::move(segment), std::move(owner).value(), region,
                                     std::move(rule), ps::NodeBinding::follow(region),
                                     ps::ServerDevice::succeed(region, other));
  impl->sign();
  return std::unique_ptr<ParameterServer>(new ParameterServer(std::move(impl)));
}

Status ParameterServer::start() { return impl_->start(); }
Status ParameterServer::stop() { return impl_->stop(); }

Status ParameterServer::serve(const StopToken& stop) {
  FFDL_RETURN_IF_ERROR(start());
  const auto event = system_runtime().make_event();
  const std::stop_callback wake(stop, [&event] { event->set(); });
  Status launcher;
  while (launcher.ok() && !impl_->failed() &&
         !event->wait_until(deadline_in(base::kFutexSleepMax))) {
    launcher = base::launcher_watch().check("parameter server '{}'", name());
  }
  const Status stopped = this->stop();
  return launcher.ok() ? stopped : launcher;
}

std::span<float> ParameterServer::weights() {
  static_cast<void>(version());  // an acquire: the span shows all gradients folded so far
  return {impl_->region().weights(), impl_->region().config().parameters};
}
const std::string& ParameterServer::name() const { return impl_->segment()->name(); }
uint64_t ParameterServer::version() const { return impl_->region().version(); }
ParameterServerStats ParameterServer::stats() const { return impl_->stats(); }
Result<ParameterServerCut> ParameterServer::cut(Time deadline) { return impl_->cut(deadline); }

}  // namespace ffdl
