#include <fmt/format.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <thread>

#include "benchmarks/harness/folder.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/suite.h"
#include "benchmarks/limits.h"
#include "ffdl/store.h"

// './dev bench store': the time of a put, and the time from a put until another process knows of
// it, against round trips over the loopback.
namespace ffdl::bench {
namespace {

constexpr int kCallsPerTurn = 16;
constexpr size_t kValueBytes = 100;  // as large as a record of membership
constexpr const char* kKey = "bench/key";

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

int play_server(const std::string& folder) {
  const auto server = StoreServer::start({.folder = folder});
  if (!server.ok()) return 1;
  answer((*server)->url());
  for (std::string line; std::getline(std::cin, line);) {
  }
  return 0;
}

// Waits for changes all the time. For each revision that it receives, it answers with the time when
// it learned of that revision or a later one.
int play_watcher(const std::string& url) {
  auto store = open_store(url, system_runtime());
  if (!store.ok()) return 1;
  std::atomic<Revision> seen{0};
  std::atomic<int64_t> seen_at{0};  // written before `seen`, whose release publishes it
  std::jthread waiter([&](const std::stop_token& stop) {
    Revision after = 0;
    while (!stop.stop_requested()) {
      const auto changed =
          (*store)->wait_change(kKey, after, deadline_in(std::chrono::milliseconds(100)));
      if (!changed.ok()) continue;
      after = *changed;
      seen_at.store(now_ns(), std::memory_order_relaxed);
      seen.store(after, std::memory_order_release);
      seen.notify_all();
    }
  });
  answer("ready");
  for (std::string line; std::getline(std::cin, line);) {
    const Revision wanted = std::stoull(line);
    while (true) {
      const Revision known = seen.load(std::memory_order_acquire);
      if (known >= wanted) break;
      seen.wait(known, std::memory_order_acquire);
    }
    answer(std::to_string(seen_at.load(std::memory_order_relaxed)));
  }
  return 0;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(fd, any, size) == 0 && getsockname(fd, any, &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

// A server of the store under test, and the URL that leads to it.
struct Served {
  std::unique_ptr<Resident> process;
  std::string url;
};

Result<Served> start_tcp(const std::string& folder) {
  FFDL_ASSIGN_OR_RETURN(auto process, Resident::start_self({"--role", "server", folder}));
  FFDL_ASSIGN_OR_RETURN(std::string url, process->ask(""));
  return Served{std::move(process), std::move(url)};
}

Result<Served> start_etcd(const std::string& folder) {
  const std::string client = fmt::format("127.0.0.1:{}", free_port());
  const std::string peer = fmt::format("http://127.0.0.1:{}", free_port());
  const std::string script = fmt::format(
      "command -v etcd >/dev/null || {{ echo none; exit; }}\n"
      "etcd --name=one --data-dir={0}/etcd --listen-client-urls=http://{1} "
      "--advertise-client-urls=http://{1} --listen-peer-urls={2} --initial-advertise-peer-urls={2} "
      "--initial-cluster=one={2} >/dev/null 2>&1 &\n"
      "trap \"kill -9 $!\" EXIT; echo started; read -r the_end",
      folder, client, peer);
  FFDL_ASSIGN_OR_RETURN(auto process, Resident::start({"/bin/bash", "-c", script}));
  FFDL_ASSIGN_OR_RETURN(const std::string outcome, process->ask(""));
  if (outcome == "none") return Status(StatusCode::kNotFound, "no etcd (Debian: etcd-server)");
  return Served{std::move(process), "etcd://" + client};
}

PairSpec row(std::string name, Turn subject, LoopbackTrips& trips, std::string note) {
  return {.name = std::move(name),
          .unit = "us",
          .figure = [](double seconds) { return seconds / kCallsPerTurn * 1e6; },
          .subject = std::move(subject),
          .limit = [&trips]() -> Result<double> { return trips.seconds(kCallsPerTurn); },
          .limit_is = fmt::format("a round trip of {} bytes over the loopback", kValueBytes),
          .note = std::move(note)};
}

void rows_of(Suite& suite, const std::string& kind, const Result<Served>& served,
             LoopbackTrips& trips) {
  const std::string put_name = "store/put_us/" + kind;
  const std::string watch_name = "store/watch_us/" + kind;
  if (!suite.wants(put_name) && !suite.wants(watch_name)) return;
  if (!served.ok()) return suite.missing(put_name, served.status().to_string());
  auto store = open_store(served->url, system_runtime());
  if (!store.ok()) return suite.failed(put_name, store.status());
  auto watcher = Resident::start_self({"--role", "watcher", served->url});
  if (!watcher.ok()) return suite.failed(watch_name, watcher.status());
  if (auto ready = (*watcher)->ask(""); !ready.ok())
    return suite.failed(watch_name, ready.status());
  const std::string value(kValueBytes, 'v');
  const Turn puts = [&]() -> Result<double> {
    Status status;
    const double seconds = seconds_of([&] {
      for (int i = 0; i < kCallsPerTurn && status.ok(); ++i) {
        status = (*store)->put("bench/other", value).status();
      }
    });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  };
  const Turn watches = [&]() -> Result<double> {
    double seconds = 0;
    for (int i = 0; i < kCallsPerTurn; ++i) {
      const int64_t begin = now_ns();
      FFDL_ASSIGN_OR_RETURN(const Revision revision, (*store)->put(kKey, value));
      FFDL_ASSIGN_OR_RETURN(const std::string seen_at, (*watcher)->ask(std::to_string(revision)));
      seconds += static_cast<double>(std::stoll(seen_at) - begin) / 1e9;
    }
    return seconds;
  };
  if (suite.wants(put_name)) suite.measure(row(put_name, puts, trips, "a value of 100 bytes"));
  if (suite.wants(watch_name)) {
    suite.measure(row(watch_name, watches, trips,
                      "from the call of put until wait_change has returned in another process"));
  }
}

void store_rows(Suite& suite) {
  LoopbackTrips trips(kValueBytes);
  suite.self_check(row("store", {}, trips, ""));
  const auto made = make_folder();
  if (!made.ok()) return suite.failed("store", made.status());
  const std::string& folder = *made;
  rows_of(suite, "tcp", start_tcp(folder), trips);
  rows_of(suite, "etcd", start_etcd(folder), trips);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 3 && std::string_view(argv[1]) == "--role") {
    return std::string_view(argv[2]) == "server" ? play_server(argv[3]) : play_watcher(argv[3]);
  }
  return Suite::run("store", argc, argv, [](Suite& suite) { store_rows(suite); });
}
