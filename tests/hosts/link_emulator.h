#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <vector>

namespace ffdl::testing {

// One direction of a host's cable.
struct LinkOptions {
  std::chrono::nanoseconds delay{};  // of each packet
  double loss = 0;                   // share of the packets that are lost, 0 to 1
  double rate = 0;                   // bits of Ethernet frames per second; 0: no limit
};

struct LinkSettings;

// Joins hosts as a switch does, in a process of its own that forwards their Ethernet frames. Each
// host has one end of a TAP device as its interface, and the emulator has the other. A frame passes
// the sending direction of one cable and the receiving direction of another. Each direction loses
// it, lets it wait for those before it at its rate, or drops it where more than 50 ms of frames
// (at least 256 KiB) wait, and delays it.
// Losses are drawn in the order of the frames by a generator with a fixed seed. Frames have up to
// 64 KiB of one TCP connection, as between virtual machines, while no direction loses any. One
// frame is one packet where one does.
// The process has real-time priority where that is permitted, and ends with the object and with the
// thread that made it.
// Threads: one.
class LinkEmulator {
 public:
  static constexpr int kHostsMax = 8;

  // Makes the interface `eth0` in the network of the calling thread. Returns the other end of it,
  // or -1 with errno: EPERM or ENOENT where TAP devices are not permitted.
  static int open_tap();

  // Owns the TAP devices. Frames are forwarded by the hardware addresses 02:00:00:00:00:HH, with HH
  // the number of the host and 1. All hosts are on switch 0. Returns null if no process could be
  // started.
  static std::unique_ptr<LinkEmulator> start(std::vector<int> taps);
  ~LinkEmulator();
  LinkEmulator(const LinkEmulator&) = delete;
  LinkEmulator& operator=(const LinkEmulator&) = delete;

  // Applies to frames that are sent from now on.
  void set(int host, const LinkOptions& sends, const LinkOptions& receives);
  // Connects a cable to a switch. Hosts of different switches do not reach each other, and no
  // interface reports that. kNoSwitch: all frames of this host are lost.
  static constexpr int kNoSwitch = -1;
  void connect(int host, int number);
  // Shows or hides the signal on the host's end of the cable. Returns false if the kernel refuses.
  bool show_carrier(int host, bool is_on);

 private:
  LinkEmulator(std::vector<int> taps, LinkSettings* shared)
      : taps_(std::move(taps)), shared_(shared) {}

  const std::vector<int> taps_;
  LinkSettings* const shared_;  // in memory that the process shares
  pid_t process_ = -1;
};

}  // namespace ffdl::testing
