#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hosts/link_emulator.h"

namespace ffdl::testing {

// Makes hosts on one machine. Each has its own network, mounts with its own /dev/shm and /proc,
// host name and process numbers. No interface of the machine is touched. A bridge in a network of
// its own joins them, and the kernel's token buckets limit its rates. The kernels that run our
// tests have no netem, so LinkEmulator joins hosts that are made with a delay or a loss.
// The hosts end with the thread that made them, even after a kill. The namespaces belong to
// processes that die with it, and interfaces end with their namespaces.
// Threads: one.
class Hosts {
 public:
  static constexpr int kMax = LinkEmulator::kHostsMax;

  // Returns the missing requirement; empty if hosts can be made here.
  static std::string why_not();
  // Returns the same for hosts with a delay or a loss, which need TAP devices too.
  static std::string why_no_emulator();

  // Applies `link` as set_link(host, link, {.rate = link.rate}) does for each host. Returns null
  // after a failure that why_not() did not foresee; stderr has the reason.
  static std::unique_ptr<Hosts> make(int count, const LinkOptions& link = {});
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  int count() const { return static_cast<int>(keepers_.size()); }
  // Returns the addresses of a host, for its members and for a store. All others reach both.
  static std::string address(int host);
  static std::string store_address(int host);

  // Starts a process on that host, which ends with the exit code that `body` returns. waitpid() may
  // wait for it. It is killed with the hosts, and when the thread that started it ends.
  pid_t start(int host, const std::function<int()>& body);

  // Changes the cable of that host: the direction in which it sends, and that in which it receives.
  // Without LinkEmulator only the rates can be set. Returns false after a failure; stderr has the
  // reason.
  bool set_link(int host, const LinkOptions& sends, const LinkOptions& receives);

  // Pulls the cable of that host, and puts it back. Either side notices. The kernel acts on such
  // news at most once a second, so packets may take as long to pass again. Returns false if `ip`
  // failed.
  bool cut(int host) { return set_cable(host, false); }
  bool heal(int host) { return set_cable(host, true); }
  // Loses all packets to and from that host, without notice, as a distant cut does.
  bool cut_silently(int host);
  bool heal_silently(int host);
  // Loses all packets of this host to that address, without notice, and no others.
  bool lose(int from, const std::string& to);
  bool deliver(int from, const std::string& to);
  // Separates these hosts from all others, without notice. Hosts of the same side reach each other.
  // With an empty list all do again.
  bool partition(const std::vector<int>& apart);
  // Ends a host as a power cut does: its interface is silent, and then all its processes are
  // killed. So no other host receives the end of a connection. waitpid() returns the processes'
  // ends. The host stays dead.
  bool die(int host);

 private:
  // The first process of a namespace. The namespace exists as long as it lives.
  struct Keeper {
    pid_t pid = -1;
    std::string hardware{};  // address of the interface
    LinkOptions sends{};
    LinkOptions receives{};
    int at_switch = 0;
  };
  Hosts() = default;
  bool build(int count, const LinkOptions& link);
  bool add_host(int host);
  bool join_by_bridge();
  bool join_by_emulator();
  int open_tap_at(int host);
  bool set_cable(int host, bool is_up);
  bool limit_rates(int host);
  bool move(int host, int at_switch);
  Keeper& at(int host) { return keepers_[static_cast<size_t>(host)]; }

  Keeper bridge_;
  std::vector<Keeper> keepers_;
  std::vector<pid_t> started_;
  std::unique_ptr<LinkEmulator> emulator_;  // in place of the bridge
};

}  // namespace ffdl::testing
