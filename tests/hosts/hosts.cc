#include "hosts/hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/fork_child.h"

namespace ffdl::testing {
namespace {

constexpr int kHostNamespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID;

bool mount_own_files() {
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1g") == 0 &&
         mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

// Runs as the first process of new namespaces: reports once whether they are valid, and then stays.
// Orphans in there become its children, and leave no zombies.
[[noreturn]] void keep(int report, const std::string& name, bool with_files) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGCHLD, SIG_IGN);
  const bool is_made =
      sethostname(name.c_str(), name.size()) == 0 && (!with_files || mount_own_files());
  const char word = is_made ? '1' : '0';
  if (write(report, &word, 1) != 1) _exit(1);
  close(report);
  while (true) pause();
}

// Returns -1 if it is not allowed.
pid_t start_keeper(const std::string& name, bool with_files) {
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) return -1;
  const pid_t child = static_cast<pid_t>(
      syscall(SYS_clone, kHostNamespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) keep(report[1], name, with_files);
  close(report[1]);
  char word = '0';
  const bool is_made = child > 0 && read(report[0], &word, 1) == 1 && word == '1';
  close(report[0]);
  if (is_made) return child;
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return -1;
}

bool run(const std::string& command) {
  const bool done = std::system(command.c_str()) == 0;
  if (!done) std::fprintf(stderr, "hosts: failed: %s\n", command.c_str());
  return done;
}

bool run_in(pid_t keeper, const std::string& command) {
  return run(fmt::format("nsenter --target {} --net sh -c '{}'", keeper, command));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

Descriptor space_of(const std::string& process, const char* kind) {
  return Descriptor(fmt::format("/proc/{}/ns/{}", process, kind));
}

// Enters the network, mounts and name of that keeper. The fork already has its process numbers.
bool move_to(pid_t keeper) {
  const std::string process = std::to_string(keeper);
  const Descriptor network = space_of(process, "net");
  const Descriptor name = space_of(process, "uts");
  const Descriptor files = space_of(process, "mnt");
  return setns(network.get(), CLONE_NEWNET) == 0 && setns(name.get(), CLONE_NEWUTS) == 0 &&
         setns(files.get(), CLONE_NEWNS) == 0;
}

std::string reason_without_hosts() {
  for (const char* tool : {"ip -V", "tc -V", "nsenter --version"}) {
    if (std::system(fmt::format("{} > /dev/null 2>&1", tool).c_str()) != 0) {
      return fmt::format("hosts need '{}' (Debian: iproute2, util-linux)", tool);
    }
  }
  const pid_t keeper = start_keeper("trial", true);
  if (keeper < 0) {
    return fmt::format("hosts need namespaces, which root may make: {}", std::strerror(errno));
  }
  const std::string trial = fmt::format(
      "nsenter --target {} --net sh -c 'ip link add bridge0 type bridge && "
      "ip link add cable0 type veth peer name cable1' > /dev/null 2>&1",
      keeper);
  const bool has_bridge = std::system(trial.c_str()) == 0;
  kill(keeper, SIGKILL);
  waitpid(keeper, nullptr, 0);
  return has_bridge ? "" : "hosts need a kernel with bridges and virtual Ethernet";
}

}  // namespace

std::string Hosts::why_not() {
  static const std::string reason = reason_without_hosts();
  return reason;
}

std::string Hosts::why_no_emulator() {
  if (const auto why = why_not(); !why.empty()) return why;
  static const std::string reason = [] {
    Hosts trial;
    if (trial.add_host(0)) {
      const int tap = trial.open_tap_at(0);
      if (tap < 0) return fmt::format("links need TAP devices: {}", std::strerror(errno));
      close(tap);
    }
    return std::string();
  }();
  return reason;
}

std::string Hosts::address(int host) { return fmt::format("10.77.0.{}", host + 1); }
std::string Hosts::store_address(int host) { return fmt::format("10.77.1.{}", host + 1); }

std::unique_ptr<Hosts> Hosts::make(int count, const LinkOptions& link) {
  std::unique_ptr<Hosts> hosts(new Hosts());
  return hosts->build(count, link) ? std::move(hosts) : nullptr;
}

Hosts::~Hosts() {
  emulator_.reset();
  if (bridge_.pid > 0) keepers_.push_back(bridge_);
  for (const Keeper& keeper : keepers_) {
    if (keeper.pid > 0) kill(keeper.pid, SIGKILL);
  }
  // A keeper ends after all processes in its namespace have been waited for.
  for (const pid_t process : started_) waitpid(process, nullptr, 0);
  for (const Keeper& keeper : keepers_) {
    if (keeper.pid > 0) waitpid(keeper.pid, nullptr, 0);
  }
}

bool Hosts::build(int count, const LinkOptions& link) {
  for (int host = 0; host < count; ++host) {
    if (!add_host(host)) return false;
  }
  const bool is_emulated = link.delay.count() > 0 || link.loss > 0;
  if (!(is_emulated ? join_by_emulator() : join_by_bridge())) return false;
  for (int host = 0; host < count; ++host) {
    const std::string up = fmt::format(
        "ip addr add {}/16 dev eth0 && ip addr add {}/16 dev eth0 && ip link set lo up && "
        "ip link set eth0 up",
        address(host), store_address(host));
    if (!run_in(at(host).pid, up)) return false;
    if (is_emulated || link.rate > 0) {
      if (!set_link(host, link, {.rate = link.rate})) return false;
    }
  }
  return true;
}

bool Hosts::add_host(int host) {
  Keeper& keeper = keepers_.emplace_back();
  keeper.pid = start_keeper(fmt::format("host{}", host), true);
  keeper.hardware = fmt::format("02:00:00:00:00:{:02x}", host + 1);
  return keeper.pid >= 0;
}

bool Hosts::join_by_bridge() {
  bridge_.pid = start_keeper("bridge", false);
  if (bridge_.pid < 0) return false;
  std::string cables =
      "ip link add bridge0 type bridge && ip link set bridge0 up && "
      "ip link add bridge1 type bridge && ip link set bridge1 up";
  for (int host = 0; host < count(); ++host) {
    cables += fmt::format(
        " && ip link add cable{0} type veth peer name eth0 address {1} netns {2} && ip link "
        "set cable{0} master bridge0 && ip link set cable{0} up",
        host, at(host).hardware, at(host).pid);
  }
  return run_in(bridge_.pid, cables);
}

// A TAP device belongs to the network in which it is opened.
int Hosts::open_tap_at(int host) {
  const Descriptor own = space_of("self", "net");
  const Descriptor network = space_of(std::to_string(at(host).pid), "net");
  const int tap = setns(network.get(), CLONE_NEWNET) == 0 ? LinkEmulator::open_tap() : -1;
  const int reason = errno;
  if (setns(own.get(), CLONE_NEWNET) != 0) std::perror("hosts: setns");
  errno = reason;
  return tap;
}

bool Hosts::join_by_emulator() {
  std::vector<int> taps;
  bool is_made = true;
  for (int host = 0; host < count() && is_made; ++host) {
    taps.push_back(open_tap_at(host));
    if (taps.back() < 0) std::perror("hosts: failed: make a TAP device");
    is_made = taps.back() >= 0 &&
              run_in(at(host).pid, fmt::format("ip link set eth0 address {}", at(host).hardware));
  }
  if (!is_made) {
    for (const int tap : taps) close(tap);
    return false;
  }
  emulator_ = LinkEmulator::start(std::move(taps));
  return emulator_ != nullptr;
}

bool Hosts::set_link(int host, const LinkOptions& sends, const LinkOptions& receives) {
  at(host).sends = sends;
  at(host).receives = receives;
  if (emulator_ == nullptr) return limit_rates(host);
  emulator_->set(host, sends, receives);
  return true;
}

bool Hosts::limit_rates(int host) {
  const Keeper& keeper = at(host);
  for (const LinkOptions* link : {&keeper.sends, &keeper.receives}) {
    if (link->delay.count() == 0 && link->loss == 0) continue;
    std::fprintf(stderr, "hosts: failed: a bridge has no delay and no loss; give make() one\n");
    return false;
  }
  const auto limit = [](const char* device, double rate) {
    if (rate == 0) return fmt::format("tc qdisc del dev {} root 2>/dev/null || true", device);
    // Holds a segment of 64 KiB, and 1 ms of a fast link.
    const double burst = std::max(66e3, rate / 8e3);
    return fmt::format("tc qdisc replace dev {} root tbf rate {:.0f}bit burst {:.0f} latency 50ms",
                       device, rate, burst);
  };
  return run_in(keeper.pid, limit("eth0", keeper.sends.rate)) &&
         run_in(bridge_.pid, limit(fmt::format("cable{}", host).c_str(), keeper.receives.rate));
}

bool Hosts::set_cable(int host, bool is_up) {
  if (emulator_ == nullptr) {
    return run_in(bridge_.pid, fmt::format("ip link set cable{} {}", host, is_up ? "up" : "down"));
  }
  emulator_->connect(host, is_up ? at(host).at_switch : LinkEmulator::kNoSwitch);
  return emulator_->show_carrier(host, is_up);
}

bool Hosts::cut_silently(int host) {
  if (emulator_ != nullptr) {
    emulator_->connect(host, LinkEmulator::kNoSwitch);
    return true;
  }
  return run_in(bridge_.pid, fmt::format("tc qdisc replace dev cable{} root blackhole", host)) &&
         run_in(at(host).pid, "tc qdisc replace dev eth0 root blackhole");
}

bool Hosts::heal_silently(int host) {
  if (emulator_ != nullptr) {
    emulator_->connect(host, at(host).at_switch);
    return true;
  }
  return limit_rates(host);
}

bool Hosts::partition(const std::vector<int>& apart) {
  for (int host = 0; host < count(); ++host) {
    const int number = std::ranges::count(apart, host) > 0 ? 1 : 0;
    if (number != at(host).at_switch && !move(host, number)) return false;
  }
  return true;
}

bool Hosts::move(int host, int at_switch) {
  at(host).at_switch = at_switch;
  if (emulator_ == nullptr) {
    return run_in(bridge_.pid, fmt::format("ip link set cable{} master bridge{}", host, at_switch));
  }
  emulator_->connect(host, at_switch);
  return true;
}

bool Hosts::die(int host) { return cut_silently(host) && kill(at(host).pid, SIGKILL) == 0; }

// Sends the packets to a hardware address that no interface has.
bool Hosts::lose(int from, const std::string& to) {
  return run_in(at(from).pid,
                fmt::format("ip neigh replace {} lladdr 02:00:00:00:00:ff dev eth0", to));
}

bool Hosts::deliver(int from, const std::string& to) {
  return run_in(at(from).pid, fmt::format("ip neigh del {} dev eth0", to));
}

// A process gets its numbers from the namespace of its birth, so this process enters that one for a
// moment.
pid_t Hosts::start(int host, const std::function<int()>& body) {
  const pid_t keeper = at(host).pid;
  const Descriptor own = space_of("self", "pid");
  const Descriptor numbers = space_of(std::to_string(keeper), "pid");
  std::fflush(nullptr);
  if (setns(numbers.get(), CLONE_NEWPID) != 0) return -1;
  const pid_t child = fork_child();
  if (child == 0) _exit(move_to(keeper) ? body() : 125);
  if (setns(own.get(), CLONE_NEWPID) != 0) std::perror("hosts: setns");
  if (child > 0) started_.push_back(child);
  return child;
}

}  // namespace ffdl::testing
