#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/store.h"
#include "net/certificate_authority.h"
#include "net/certificate_files.h"
#include "support/free_port.h"
#include "support/program.h"
#include "support/start_program.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"

namespace ffdl::testing {

// A real etcd on the loopback with its data in a folder of its own: alone, or one of several.
class EtcdServer {
 public:
  // Starts a cluster of so many servers, with etcd's own time-outs.
  static std::vector<std::unique_ptr<EtcdServer>> start_cluster(int servers) {
    std::vector<std::unique_ptr<EtcdServer>> all;
    std::string cluster;
    for (int i = 0; i < servers; ++i) {
      all.push_back(std::unique_ptr<EtcdServer>(new EtcdServer("server" + std::to_string(i), {})));
      cluster += (i > 0 ? "," : "") + all.back()->name_ + "=" + all.back()->peer_url();
    }
    for (const auto& server : all) {
      server->cluster_ = cluster;
      server->start();
    }
    return all;
  }
  explicit EtcdServer(std::vector<std::string> arguments = {"--heartbeat-interval=20",
                                                            "--election-timeout=100"})
      : EtcdServer("alone", std::move(arguments)) {
    start();
  }
  // Starts a server that requires certificates. Clients find theirs in its folder.
  static std::unique_ptr<EtcdServer> start_with_certificates() {
    auto server = std::unique_ptr<EtcdServer>(
        new EtcdServer("alone", {"--heartbeat-interval=20", "--election-timeout=100"}));
    server->make_certificates();
    server->start();
    return server;
  }
  // After a failure, shows what etcd wrote last.
  ~EtcdServer() {
    const bool has_ended = pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) != 0;
    if (has_ended) pid_ = 0;
    kill();
    if (!::testing::Test::HasFailure()) return;
    std::cerr << "etcd at " << address() << (has_ended ? " had ended" : " ran") << "; its log:\n"
              << run_program("tail -n 20 '" + log_file() + "'").out;
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(client_port_); }
  std::string url() const {
    return "etcd://" + address() + (scheme_ == "https" ? "?certificates=" + folder_.path() : "");
  }

  // Starts at the same address and with the same data as before.
  void start() {
    const std::string client = scheme_ + "://" + address();
    const std::string peer = peer_url();
    std::vector<std::string> words = {"etcd",
                                      "--name=" + name_,
                                      "--data-dir=" + folder_.file("data"),
                                      "--listen-client-urls=" + client,
                                      "--advertise-client-urls=" + client,
                                      "--listen-peer-urls=" + peer,
                                      "--initial-advertise-peer-urls=" + peer,
                                      "--initial-cluster=" + cluster_};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    const int log = open(log_file().c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    pid_ = start_program(std::move(words), log, log);
    close(log);
  }
  void stop() const { stop_process(pid_); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void remove_data() { std::filesystem::remove_all(folder_.file("data")); }

 private:
  EtcdServer(std::string name, std::vector<std::string> arguments)
      : name_(std::move(name)), arguments_(std::move(arguments)) {}
  void make_certificates() {
    auto authority = net::CertificateAuthority::of("secret", "test").value();
    const auto client = authority.issue("client", {}).value();
    const auto server = authority.issue("server", {"127.0.0.1"}).value();
    folder_.write(net::kAuthorityFile, authority.certificate());
    folder_.write(net::kClientFile, client.certificate);
    folder_.write(net::kClientKeyFile, client.key);
    folder_.write(net::kServerFile, server.certificate);
    folder_.write(net::kServerKeyFile, server.key);
    arguments_.insert(arguments_.end(), {"--client-cert-auth",
                                         "--trusted-ca-file=" + folder_.file(net::kAuthorityFile),
                                         "--cert-file=" + folder_.file(net::kServerFile),
                                         "--key-file=" + folder_.file(net::kServerKeyFile)});
    scheme_ = "https";
  }
  std::string log_file() const { return folder_.file("log"); }
  std::string peer_url() const { return "http://127.0.0.1:" + std::to_string(peer_port_); }

  const std::string name_;
  std::vector<std::string> arguments_;
  std::string scheme_ = "http";  // of the clients' connections
  const TempFolder folder_;
  const int client_port_ = free_port();
  const int peer_port_ = free_port();
  std::string cluster_ = name_ + "=" + peer_url();
  pid_t pid_ = 0;
};

// Returns the reason why a test cannot have a store in etcd here; empty if it can.
inline std::string why_no_etcd() {
  if (run_program("command -v etcd").exit_code != 0) return "no etcd (Debian: etcd-server)";
  const auto client = open_store("etcd://127.0.0.1:1", system_runtime(),
                                 {.operation_timeout = std::chrono::milliseconds(1)});
  const bool has_client = client.status().code() != StatusCode::kUnimplemented;
  return has_client ? "" : std::string(client.status().message());
}

}  // namespace ffdl::testing
