#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace ffdl::bench {

inline constexpr const char* kTwoHostsCable = "ffdl0";

// Runs `body(host, address)` as two hosts on one machine. The hosts are processes in separate
// network namespaces, joined by a virtual cable, each with a /dev/shm of its own. Returns the exit
// codes, or none if that is not allowed: it needs root and iproute2. Nothing of it outlives the
// processes.
inline std::optional<std::array<int, 2>> run_two_hosts(
    const std::function<int(int host, const std::string& address)>& body) {
  std::array<pid_t, 2> hosts{};
  std::array<std::array<int, 2>, 2> ready{};
  std::array<std::array<int, 2>, 2> joined{};
  for (size_t host = 0; host < 2; ++host) {
    if (pipe2(ready[host].data(), O_CLOEXEC) != 0 || pipe2(joined[host].data(), O_CLOEXEC) != 0) {
      return std::nullopt;
    }
    hosts[host] = fork();
    if (hosts[host] != 0) continue;
    close(joined[host][1]);
    char allowed = unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                   mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                   mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1g") == 0;
    if (write(ready[host][1], &allowed, 1) != 1 || read(joined[host][0], &allowed, 1) != 1) {
      _exit(1);
    }
    const std::string address = "10.77.0." + std::to_string(host + 1);
    const std::string up =
        "ip addr add " + address + "/24 dev ffdl0 && ip link set ffdl0 up && ip link set lo up";
    _exit(std::system(up.c_str()) == 0 ? body(static_cast<int>(host), address) : 1);
  }
  bool all_allowed = true;
  for (size_t host = 0; host < 2; ++host) {
    char allowed = 0;
    all_allowed = read(ready[host][0], &allowed, 1) == 1 && allowed != 0 && all_allowed;
  }
  const std::string cable = "ip link add name ffdl0 netns " + std::to_string(hosts[0]) +
                            " type veth peer name ffdl0 netns " + std::to_string(hosts[1]) +
                            " 2>/dev/null";
  all_allowed = all_allowed && std::system(cable.c_str()) == 0;
  std::array<int, 2> codes{};
  for (size_t host = 0; host < 2; ++host) {
    // A host that receives no byte ends.
    if (all_allowed && write(joined[host][1], "", 1) != 1) all_allowed = false;
    for (const int end : {ready[host][0], ready[host][1], joined[host][0], joined[host][1]}) {
      close(end);
    }
  }
  for (size_t host = 0; host < 2; ++host) {
    int outcome = 0;
    waitpid(hosts[host], &outcome, 0);
    codes[host] = WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -WTERMSIG(outcome);
  }
  return all_allowed ? std::optional(codes) : std::nullopt;
}

}  // namespace ffdl::bench
