#include "membership/launch_environment.h"

#include "base/env.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/parse_count.h"

namespace ffdl {
namespace membership {
namespace {

using Variables = std::map<std::string, std::string>;

// A variable in which a launcher writes a number, and the field for it.
struct NumberField {
  const char* name;
  int LaunchEnvironment::* field;
};

struct Launcher {
  const char* rank;
  const char* world_size;
  std::vector<NumberField> numbers;
  const char* master_address;
  const char* run_id;
};

// Lists the launchers in order. The first whose rank variable is set has started this process.
const std::vector<Launcher>& launchers() {
  using E = LaunchEnvironment;
  static const std::vector<Launcher> in_order = {
      {"RANK",
       "WORLD_SIZE",
       {{"LOCAL_RANK", &E::local_rank},
        {"LOCAL_WORLD_SIZE", &E::local_world_size},
        {"GROUP_RANK", &E::group_rank},
        {"ROLE_RANK", &E::role_rank},
        {"ROLE_WORLD_SIZE", &E::role_world_size},
        {"MASTER_PORT", &E::master_port},
        {"TORCHELASTIC_RESTART_COUNT", &E::restart_count},
        {"TORCHELASTIC_MAX_RESTARTS", &E::max_restarts}},
       "MASTER_ADDR",
       "TORCHELASTIC_RUN_ID"},
      {"OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", &E::local_rank},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", &E::local_world_size}},
       "",
       ""},
      {"SLURM_PROCID",
       "SLURM_NTASKS",
       {{"SLURM_LOCALID", &E::local_rank},
        {"SLURM_NTASKS_PER_NODE", &E::local_world_size},
        {"SLURM_NODEID", &E::group_rank},
        {"SLURM_RESTART_COUNT", &E::restart_count}},
       "",
       "SLURM_JOB_ID"},
      {"PMI_RANK",
       "PMI_SIZE",
       {{"MPI_LOCALRANKID", &E::local_rank}, {"MPI_LOCALNRANKS", &E::local_world_size}},
       "",
       ""}};
  return in_order;
}

Result<int> number_in(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  if (found == variables.end()) {
    return base::invalid_argument("read the launcher's variables: {} is not set; set it too", name);
  }
  const std::string& text = found->second;
  if (const auto value = base::parse_count(text)) return *value;
  return base::invalid_argument(
      "read the launcher's variables: {}='{}' is not a number from 0 on; correct it", name, text);
}

std::string text_in(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

Status check(const LaunchEnvironment& read, const Launcher& launcher) {
  if (read.world_size < 1 || read.world_size > static_cast<int>(base::kRanksMax) ||
      read.rank >= read.world_size) {
    return base::invalid_argument(
        "read the launcher's variables: {}={} and {}={}; use 0 <= rank < size <= {}", launcher.rank,
        read.rank, launcher.world_size, read.world_size, base::kRanksMax);
  }
  if (read.local_world_size > 0 && read.local_rank >= read.local_world_size) {
    return base::invalid_argument(
        "read the launcher's variables: rank {} of {} on this host; use 0 <= rank < size",
        read.local_rank, read.local_world_size);
  }
  return {};
}

Result<LaunchEnvironment> read_from(const Launcher& launcher, const Variables& variables) {
  LaunchEnvironment read;
  FFDL_ASSIGN_OR_RETURN(read.rank, number_in(variables, launcher.rank));
  FFDL_ASSIGN_OR_RETURN(read.world_size, number_in(variables, launcher.world_size));
  read.role_rank = read.rank;
  for (const NumberField& number : launcher.numbers) {
    if (!variables.contains(number.name)) continue;
    FFDL_ASSIGN_OR_RETURN(read.*number.field, number_in(variables, number.name));
  }
  read.master_address = text_in(variables, launcher.master_address);
  read.run_id = text_in(variables, launcher.run_id);
  FFDL_RETURN_IF_ERROR(check(read, launcher));
  return read;
}

}  // namespace

Result<std::optional<LaunchEnvironment>> parse_launch_environment(const Variables& variables) {
  for (const Launcher& launcher : launchers()) {
    if (!variables.contains(launcher.rank)) continue;
    FFDL_ASSIGN_OR_RETURN(LaunchEnvironment read, read_from(launcher, variables));
    return std::optional(std::move(read));
  }
  return std::optional<LaunchEnvironment>();
}

Result<std::optional<JobEnvironment>> parse_job_environment(const Variables& variables) {
  if (!variables.contains("FFDL_STORE")) return std::optional<JobEnvironment>();
  JobEnvironment read;
  read.store_url = text_in(variables, "FFDL_STORE");
  read.store_secret = text_in(variables, "FFDL_STORE_SECRET");
  read.worker_id = text_in(variables, "FFDL_WORKER_ID");
  if (read.worker_id.empty()) {
    return base::invalid_argument(
        "read the launcher's variables: FFDL_STORE is set and FFDL_WORKER_ID is not; set it too");
  }
  if (variables.contains("FFDL_JOB")) read.job = text_in(variables, "FFDL_JOB");
  if (variables.contains("FFDL_MIN_WORKERS")) {
    FFDL_ASSIGN_OR_RETURN(read.min_workers, number_in(variables, "FFDL_MIN_WORKERS"));
  }
  if (variables.contains("FFDL_MAX_WORKERS")) {
    FFDL_ASSIGN_OR_RETURN(read.max_workers, number_in(variables, "FFDL_MAX_WORKERS"));
  }
  read.takes_over_from = text_in(variables, "FFDL_TAKES_OVER_FROM");
  read.ledger_log = text_in(variables, "FFDL_LEDGER_LOG");
  const std::string on_lost_state = text_in(variables, "FFDL_ON_LOST_STATE");
  if (!on_lost_state.empty() && on_lost_state != "restart" && on_lost_state != "fail") {
    return base::invalid_argument(
        "read the launcher's variables: FFDL_ON_LOST_STATE='{}'; use restart or fail",
        on_lost_state);
  }
  if (on_lost_state == "fail") read.on_lost_state = OnLostState::kFail;
  return std::optional(std::move(read));
}

}  // namespace membership

Result<std::optional<LaunchEnvironment>> launch_environment() {
  return membership::parse_launch_environment(base::environment().launcher);
}

std::vector<std::string> launch_variables(const LaunchEnvironment& environment) {
  const membership::Launcher& torchrun = membership::launchers().front();
  std::vector<std::string> variables = {
      fmt::format("{}={}", torchrun.rank, environment.rank),
      fmt::format("{}={}", torchrun.world_size, environment.world_size)};
  for (const auto& number : torchrun.numbers) {
    variables.push_back(fmt::format("{}={}", number.name, environment.*number.field));
  }
  variables.push_back(fmt::format("{}={}", torchrun.master_address, environment.master_address));
  variables.push_back(fmt::format("{}={}", torchrun.run_id, environment.run_id));
  return variables;
}

Result<std::optional<JobEnvironment>> job_environment() {
  return membership::parse_job_environment(base::environment().launcher);
}

std::vector<std::string> job_variables(const JobEnvironment& environment) {
  return {"FFDL_STORE=" + environment.store_url,
          "FFDL_STORE_SECRET=" + environment.store_secret,
          "FFDL_JOB=" + environment.job,
          "FFDL_WORKER_ID=" + environment.worker_id,
          fmt::format("FFDL_MIN_WORKERS={}", environment.min_workers),
          fmt::format("FFDL_MAX_WORKERS={}", environment.max_workers),
          "FFDL_TAKES_OVER_FROM=" + environment.takes_over_from,
          "FFDL_LEDGER_LOG=" + environment.ledger_log,
          fmt::format("FFDL_ON_LOST_STATE={}",
                      environment.on_lost_state == OnLostState::kFail ? "fail" : "restart")};
}

MembershipOptions membership_options(const JobEnvironment& environment) {
  MembershipOptions options;
  options.job = environment.job;
  options.on_lost_state = environment.on_lost_state;
  options.min_workers = environment.min_workers;
  options.max_workers = environment.max_workers;
  options.takes_over_from = environment.takes_over_from;
  return options;
}

World world_of(const LaunchEnvironment& environment) {
  World world;
  world.generation = static_cast<uint64_t>(environment.restart_count) + 1;
  world.rank = environment.rank;
  world.lineage = world.generation;
  for (int rank = 0; rank < environment.world_size; ++rank) {
    world.members.push_back({fmt::format("worker-{}", rank), world.generation});
  }
  return world;
}

}  // namespace ffdl
