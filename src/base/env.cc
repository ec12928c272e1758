#include "base/env.h"

#include <cstdlib>
#include <string_view>

namespace ffdl::base {
namespace {

LogLevel read_log_level() {
  const char* text = std::getenv("FFDL_LOG");
  const std::string_view level = text ? text : "";
  if (level == "debug") return LogLevel::kDebug;
  if (level == "info") return LogLevel::kInfo;
  if (level == "error") return LogLevel::kError;
  return LogLevel::kWarning;
}

// src/membership/launch_environment.cc defines their meaning.
constexpr const char* kLauncherVariables[] = {"FFDL_STORE",
                                              "FFDL_STORE_SECRET",
                                              "FFDL_JOB",
                                              "FFDL_WORKER_ID",
                                              "FFDL_MIN_WORKERS",
                                              "FFDL_MAX_WORKERS",
                                              "FFDL_TAKES_OVER_FROM",
                                              "FFDL_LEDGER_LOG",
                                              "FFDL_ON_LOST_STATE",
                                              "FFDL_INTERFACE",
                                              "FFDL_TLS",
                                              "FFDL_LAUNCHER",
                                              "RANK",
                                              "WORLD_SIZE",
                                              "LOCAL_RANK",
                                              "LOCAL_WORLD_SIZE",
                                              "GROUP_RANK",
                                              "PET_NODE_RANK",
                                              "JOB_COMPLETION_INDEX",
                                              "CUDA_VISIBLE_DEVICES",
                                              "ROLE_RANK",
                                              "ROLE_WORLD_SIZE",
                                              "MASTER_ADDR",
                                              "MASTER_PORT",
                                              "TORCHELASTIC_RESTART_COUNT",
                                              "TORCHELASTIC_MAX_RESTARTS",
                                              "TORCHELASTIC_RUN_ID",
                                              "OMPI_COMM_WORLD_RANK",
                                              "OMPI_COMM_WORLD_SIZE",
                                              "OMPI_COMM_WORLD_LOCAL_RANK",
                                              "OMPI_COMM_WORLD_LOCAL_SIZE",
                                              "SLURM_PROCID",
                                              "SLURM_NTASKS",
                                              "SLURM_LOCALID",
                                              "SLURM_NTASKS_PER_NODE",
                                              "SLURM_NODEID",
                                              "SLURM_RESTART_COUNT",
                                              "SLURM_JOB_ID",
                                              "PMI_RANK",
                                              "PMI_SIZE",
                                              "MPI_LOCALRANKID",
                                              "MPI_LOCALNRANKS"};

std::map<std::string, std::string> read_launcher() {
  std::map<std::string, std::string> variables;
  for (const char* name : kLauncherVariables) {
    if (const char* value = std::getenv(name)) variables[name] = value;
  }
  return variables;
}

std::string read_text(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> read_python_prefixes() {
  std::vector<std::string> prefixes;
  for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (std::string value = read_text(name); !value.empty()) prefixes.push_back(std::move(value));
  }
  return prefixes;
}

}  // namespace

const Environment& environment() {
  static const Environment read_once{.log_level = read_log_level(),
                                     .launcher = read_launcher(),
                                     .nccl_root = read_text("NCCL_ROOT"),
                                     .python_prefixes = read_python_prefixes()};
  return read_once;
}

}  // namespace ffdl::base
