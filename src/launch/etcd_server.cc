#include "launch/etcd_server.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/log.h"
#include "base/own_files.h"
#include "base/thread.h"
#include "net/certificate_files.h"

namespace ffdl::launch {
namespace {

// The pause before an etcd is started again. It is doubled when that one ends soon, too.
constexpr Duration kRestartMin = std::chrono::milliseconds(100);
constexpr Duration kRestartMax = std::chrono::seconds(5);
// An etcd keeps so many former revisions, so that its data does not grow with the job.
constexpr const char* kKeptRevisions = "100000";

std::string log_in(const std::string& folder) { return folder + "/etcd.log"; }

WorkerCommand command_of(const EtcdServerOptions& options) {
  const std::string client = "https://" + options.client_address;
  const std::string peer = "https://" + options.peer_address;
  const auto file = [&](const char* name) { return options.folder + "/" + name; };
  const std::string authority = file(net::kAuthorityFile);
  const std::string certificate = file(net::kServerFile);
  const std::string key = file(net::kServerKeyFile);
  return {
      .name = "etcd",
      .argv = {options.program, "--name=" + options.name, "--data-dir=" + options.folder + "/data",
               "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
               "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
               "--initial-cluster=" + options.cluster, "--initial-cluster-token=" + options.token,
               "--client-cert-auth", "--trusted-ca-file=" + authority, "--cert-file=" + certificate,
               "--key-file=" + key, "--peer-client-cert-auth",
               "--peer-trusted-ca-file=" + authority, "--peer-cert-file=" + certificate,
               "--peer-key-file=" + key, "--auto-compaction-mode=revision",
               std::string("--auto-compaction-retention=") + kKeptRevisions},
      // A proxy of the environment would be asked for the other members.
      .environment = {"NO_PROXY=*", "no_proxy=*"},
      .log_file = log_in(options.folder)};
}

}  // namespace

EtcdServer::EtcdServer(EtcdServerOptions options)
    : options_(std::move(options)),
      command_(command_of(options_)),
      exited_(system_runtime().make_event()) {}

EtcdServer::~EtcdServer() {
  if (keeper_ != nullptr) keeper_->request_stop();
  exited_->set();
  keeper_.reset();
  launcher_.reset();
}

Status EtcdServer::find(const std::string& program, const std::string& folder) {
  const auto exited = system_runtime().make_event();
  FFDL_ASSIGN_OR_RETURN(const auto launcher, make_local_launcher(*exited));
  FFDL_RETURN_IF_ERROR(base::replace_own_file(log_in(folder), ""));
  const Status started =
      launcher->start({.name = "etcd", .argv = {program, "--version"}, .log_file = log_in(folder)})
          .status();
  if (started.code() != StatusCode::kNotFound) return started;
  return base::make_error(
      StatusCode::kNotFound,
      "start etcd on this host: there is no program '{}' in PATH; install it (Debian: apt-get "
      "install etcd-server), or name a running etcd by --store etcd://HOST:PORT",
      program);
}

Result<std::unique_ptr<EtcdServer>> EtcdServer::start(EtcdServerOptions options) {
  auto made = std::unique_ptr<EtcdServer>(new EtcdServer(std::move(options)));
  FFDL_RETURN_IF_ERROR(made->begin());
  return made;
}

Status EtcdServer::begin() {
  FFDL_RETURN_IF_ERROR(base::replace_own_file(log_in(options_.folder), ""));
  FFDL_ASSIGN_OR_RETURN(launcher_, make_local_launcher(*exited_));
  FFDL_ASSIGN_OR_RETURN(const int64_t process, launcher_->start(command_));
  base::log_info("etcd '{}' at {} runs as process {}", options_.name, options_.client_address,
                 process);
  keeper_ = system_runtime().spawn("ffdl-etcd", [this](const StopToken& stop) { keep(stop); });
  return keeper_ != nullptr ? Status() : base::no_thread("ffdl-etcd");
}

void EtcdServer::keep(const StopToken& stop) {
  Duration pause = kRestartMin;
  Time began = system_runtime().now();
  bool runs = true;
  while (true) {
    exited_->wait_until(runs ? kNoDeadline : system_runtime().now() + pause);
    exited_->reset();
    if (stop.stop_requested()) return;
    if (const auto exit = launcher_->poll_exit()) {
      const bool was_short = system_runtime().now() - began < kRestartMax;
      pause = was_short ? std::min(2 * pause, kRestartMax) : kRestartMin;
      runs = false;
      base::log_warning("etcd '{}' at {} has ended ({} {}): {}; starting it again", options_.name,
                        options_.client_address, exit->signal != 0 ? "signal" : "exit code",
                        exit->signal != 0 ? exit->signal : exit->exit_code, last_line());
      continue;
    }
    if (runs) continue;
    began = system_runtime().now();
    const auto process = launcher_->start(command_);
    runs = process.ok();
    if (!runs) base::log_warning("{}; trying again", process.status().message());
  }
}

std::string EtcdServer::last_line() const {
  constexpr std::streamoff kTail = 400;
  std::ifstream file(log_in(options_.folder), std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  file.seekg(std::max<std::streamoff>(size - kTail, 0));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace ffdl::launch
