#include "cli/run_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/resource_limit.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "ffdl/runtime.h"

namespace ffdl::cli {
namespace {

// Limits the wait for workers without a launcher to end (base/launcher_watch.h).
constexpr Duration kOrphansPatience = std::chrono::seconds(5);

// Serves the store, with retries. Workers whose launcher was killed end soon. One of them may serve
// the store until then.
Result<std::unique_ptr<StoreServer>> serve_soon(const StoreServerOptions& options) {
  const Time deadline = deadline_in(kOrphansPatience);
  const auto never = system_runtime().make_event();
  while (true) {
    auto server = StoreServer::start(options);
    const bool is_served = server.status().code() == StatusCode::kConflict;
    if (!is_served || deadline_in({}) >= deadline) return server;
    never->wait_until(deadline_in(kInterruptCheckInterval));
  }
}

// Waits for the secret. If node 0 of the job runs on this host too and was given no secret, its
// store has made one. Returns an empty text if node 0 is elsewhere.
Result<std::string> wait_for_secret(const std::string& job) {
  const Time deadline = deadline_in(StoreOptions{}.operation_timeout);
  const auto never = system_runtime().make_event();
  while (true) {
    auto secret = store_secret_of(job);
    if (!secret.ok() || !secret->empty() || deadline_in({}) >= deadline) return secret;
    never->wait_until(deadline_in(kInterruptCheckInterval));
  }
}

// Checks for the descriptors that a connection of this process to the server in it takes: the
// client's socket and loop, and the server's socket. A server without a descriptor to accept with
// does not answer, and the client would have no reason to report.
Status check_descriptors() {
  std::array<int, 5> probes{};
  for (int& probe : probes) probe = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int error = errno;
  const bool are_left = probes.back() >= 0;
  for (const int probe : probes) {
    if (probe >= 0) ::close(probe);
  }
  if (are_left) return {};
  return base::system_failure("connect to the job's own store", error, "try again");
}

// Waits so long for node 0 to serve the store: people and clusters start nodes one after the other.
constexpr Duration kNodeZeroPatience = std::chrono::seconds(60);

// Opens the store that node 0 serves, as soon as it does.
Result<std::unique_ptr<Store>> open_of_node_zero(const launch::SupervisorOptions& options) {
  const Time deadline = deadline_in(kNodeZeroPatience);
  bool has_told = false;
  while (true) {
    auto store = open_store(options.store_url, system_runtime(), {.secret = options.store_secret});
    if (store.status().code() != StatusCode::kUnavailable) return store;
    if (deadline_in({}) >= deadline) {
      return Status(StatusCode::kUnavailable,
                    fmt::format("{}; start node 0 on the host that has this address, or pass "
                                "--node-rank 0 to the node to which this address forwards",
                                store.status().message()));
    }
    if (!std::exchange(has_told, true)) {
      print(stderr, "ffdl: waiting up to {} s for node 0 to serve the store '{}'\n",
            kNodeZeroPatience / std::chrono::seconds(1), options.store_url);
    }
    system_runtime().make_event()->wait_until(deadline_in(kInterruptCheckInterval));
  }
}

// Starts this node's part of the job's etcd, and opens the store in it.
Status open_etcd(const RunPlan& plan, const JobFolder& folder, const std::string& interface,
                 launch::SupervisorOptions& options, RunStore& here) {
  const int members = plan.etcd_members;
  if (members > 1) {
    print(stderr, "ffdl: job '{}': its etcd starts when {} nodes have started\n", options.job,
          members);
  }
  const std::unique_ptr<Store> rendezvous = std::move(here.store);
  FFDL_ASSIGN_OR_RETURN(here.etcd,
                        launch::EtcdCluster::join(*rendezvous, {.job = options.job,
                                                                .secret = options.store_secret,
                                                                .folder = etcd_folder(folder),
                                                                .interface = interface,
                                                                .members = members,
                                                                .founds = here.server != nullptr}));
  options.store_url = here.etcd->url();
  FFDL_ASSIGN_OR_RETURN(here.store, open_store(options.store_url, system_runtime()));
  return folder.write_store_url(options.store_url);
}

}  // namespace

std::string etcd_folder(const JobFolder& folder) { return folder.path() + "/etcd"; }

Result<RunStore> open_run_store(const RunPlan& plan, const JobFolder& folder,
                                const std::string& interface, launch::SupervisorOptions& options) {
  RunStore here;
  const bool secret_is_given = !options.store_secret.empty();
  if (!plan.serve.empty()) {
    FFDL_ASSIGN_OR_RETURN(here.server, serve_soon({.folder = folder.store_folder(),
                                                   .address = plan.serve,
                                                   .secret = options.store_secret,
                                                   .makes_secret = true}));
    FFDL_RETURN_IF_ERROR(check_descriptors());
    options.store_url = here.server->url();
    options.store_secret = here.server->secret();
  } else if (plan.shares_served && options.store_secret.empty()) {
    FFDL_ASSIGN_OR_RETURN(options.store_secret, wait_for_secret(options.job));
  }
  if (plan.shares_served) {
    FFDL_ASSIGN_OR_RETURN(here.store, open_of_node_zero(options));
  } else {
    FFDL_ASSIGN_OR_RETURN(here.store, open_store(options.store_url, system_runtime(),
                                                 {.secret = options.store_secret}));
  }
  if (plan.etcd_members > 0) {
    FFDL_RETURN_IF_ERROR(open_etcd(plan, folder, interface, options, here));
    if (plan.is_private && !secret_is_given) options.store_secret.clear();  // of no use to workers
    return here;
  }
  FFDL_RETURN_IF_ERROR(folder.write_store_url(options.store_url));
  if (plan.is_private) {  // workers read the secret in the folder
    options.store_url = "tcp://" + folder.store_folder();
    if (!secret_is_given) options.store_secret.clear();
  }
  return here;
}

}  // namespace ffdl::cli
