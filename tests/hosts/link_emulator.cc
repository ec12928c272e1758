#include "hosts/link_emulator.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <utility>

#include "support/fork_child.h"

namespace ffdl::testing {
struct LinkSettings {
  struct Lane {
    std::atomic<int64_t> delay_ns;
    std::atomic<double> loss;
    std::atomic<double> rate;
    void set(const LinkOptions& options) {
      delay_ns = options.delay.count();
      loss = options.loss;
      rate = options.rate;
    }
  };
  struct Cable {
    Lane sends;
    Lane receives;
    std::atomic<int> at_switch;
  };
  std::array<Cable, LinkEmulator::kHostsMax> cables;
};

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr uint64_t kSeed = 1;
constexpr auto kQueueTime = 50ms;
constexpr double kQueueBitsMin = 8.0 * (256 << 10);
constexpr size_t kWaitingBytesMax = size_t{256} << 20;  // of all frames; more are dropped

// The header that the kernel puts before a frame: virtio_net_hdr of linux/virtio_net.h, which is no
// valid C++.
struct OffloadHeader {
  uint8_t flags;
  uint8_t segment_type;  // 0: one packet
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
constexpr size_t kHeaderBytes = sizeof(OffloadHeader);
static_assert(kHeaderBytes == 10);
constexpr size_t kFrameBytesMax = kHeaderBytes + 14 + (64 << 10);
constexpr size_t kAddressBytes = 6;
constexpr int kReadsPerTurn = 32;  // of one host, before the others have their turn
constexpr int kToAll = -1;
constexpr int kToNone = -2;

// The bytes of a frame with the header of its offloads, as the kernel reads and writes them.
using Bytes = std::vector<char>;

struct Frame {
  Time due = {};
  uint64_t number = 0;  // keeps the order of frames that are due at the same time
  int from = 0;
  int to = kToNone;
  bool is_sent = false;  // has passed the sending direction
  Bytes bytes = {};
};

bool is_later(const Frame& a, const Frame& b) {
  return a.due != b.due ? a.due > b.due : a.number > b.number;
}

// Returns the bits that the frame takes on a wire: a large segment is sent as several packets, each
// with the same headers.
double wire_bits(const Bytes& bytes) {
  OffloadHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const double size = static_cast<double>(bytes.size() - kHeaderBytes);
  if (header.segment_type == 0 || header.segment_bytes == 0) return 8 * size;
  const double packets = std::max(1.0, (size - header.header_bytes) / header.segment_bytes);
  return 8 * (size + (packets - 1) * header.header_bytes);
}

int target_of(const Bytes& bytes) {
  const auto* const address = reinterpret_cast<const unsigned char*>(bytes.data()) + kHeaderBytes;
  if ((address[0] & 1U) != 0) return kToAll;
  const std::array<unsigned char, kAddressBytes - 1> known = {2, 0, 0, 0, 0};
  if (!std::equal(known.begin(), known.end(), address)) return kToNone;
  return static_cast<int>(address[kAddressBytes - 1]) - 1;
}

bool set_offloads(int tap, bool is_segmented) {
  const unsigned int checksums = TUN_F_CSUM;
  const unsigned int segments = TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
  return ioctl(tap, TUNSETOFFLOAD, checksums | (is_segmented ? segments : 0U)) == 0;
}

// Runs in the process.
class Forwarder {
 public:
  Forwarder(LinkSettings& shared, const std::vector<int>& taps) : shared_(shared) {
    for (const int tap : taps) polled_.push_back({tap, POLLIN, 0});
  }

  [[noreturn]] void run() {
    while (true) {
      deliver();
      wait();
      for (size_t host = 0; host < polled_.size(); ++host) {
        // The device of a host that died reports an error for ever.
        if ((polled_[host].revents & ~POLLIN) != 0) polled_[host].fd = -1;
        if ((polled_[host].revents & POLLIN) != 0) read_frames(static_cast<int>(host));
      }
    }
  }

 private:
  using Lane = LinkSettings::Lane;

  LinkSettings::Cable& cable(int host) { return shared_.cables[static_cast<size_t>(host)]; }

  void wait() {
    timespec left{};
    if (!waiting_.empty()) {
      const auto length = std::max<Clock::duration>(waiting_.front().due - Clock::now(), 0ns);
      left.tv_sec = length / 1s;
      left.tv_nsec = (length % 1s).count();
    }
    ppoll(polled_.data(), polled_.size(), waiting_.empty() ? nullptr : &left, nullptr);
  }

  void read_frames(int host) {
    for (int i = 0; i < kReadsPerTurn; ++i) {
      const ssize_t size =
          read(polled_[static_cast<size_t>(host)].fd, newest_.data(), newest_.size());
      if (size <= static_cast<ssize_t>(kHeaderBytes + kAddressBytes)) return;
      Bytes bytes = take_bytes();
      bytes.assign(newest_.begin(), newest_.begin() + size);
      const int to = target_of(bytes);
      enter(cable(host).sends, busy_[static_cast<size_t>(host)][0],
            {.due = Clock::now(), .from = host, .to = to, .bytes = std::move(bytes)});
    }
  }

  // Passes one direction of a cable. `due` is the time at which the frame reaches it.
  void enter(const Lane& lane, Time& busy_until, Frame frame) {
    if (std::bernoulli_distribution(std::clamp(lane.loss.load(), 0.0, 1.0))(random_)) {
      return keep(std::move(frame.bytes));
    }
    const double rate = lane.rate;
    if (rate > 0) {
      const Time begins = std::max(busy_until, frame.due);
      const std::chrono::duration<double> queue_max(
          std::max(std::chrono::duration<double>(kQueueTime).count(), kQueueBitsMin / rate));
      if (begins - frame.due > queue_max) return keep(std::move(frame.bytes));
      busy_until = begins + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(wire_bits(frame.bytes) / rate));
      frame.due = busy_until;
    }
    frame.due += std::chrono::nanoseconds(lane.delay_ns);
    frame.number = ++frames_;
    if (waiting_bytes_ + frame.bytes.size() > kWaitingBytesMax) return keep(std::move(frame.bytes));
    waiting_bytes_ += frame.bytes.size();
    waiting_.push_back(std::move(frame));
    std::push_heap(waiting_.begin(), waiting_.end(), is_later);
  }

  // Moves on all frames that are due.
  void deliver() {
    while (!waiting_.empty() && waiting_.front().due <= Clock::now()) {
      std::pop_heap(waiting_.begin(), waiting_.end(), is_later);
      Frame frame = std::move(waiting_.back());
      waiting_.pop_back();
      waiting_bytes_ -= frame.bytes.size();
      if (frame.is_sent) {
        hand_over(std::move(frame));
      } else {
        switch_over(std::move(frame));
      }
    }
  }

  void switch_over(Frame frame) {
    frame.is_sent = true;
    const int at = cable(frame.from).at_switch;
    if (frame.to >= 0 && frame.to < static_cast<int>(polled_.size()) &&
        at != LinkEmulator::kNoSwitch && cable(frame.to).at_switch == at) {
      const auto to = static_cast<size_t>(frame.to);
      return enter(cable(frame.to).receives, busy_[to][1], std::move(frame));
    }
    if (frame.to == kToAll && at != LinkEmulator::kNoSwitch) send_to_all(frame, at);
    keep(std::move(frame.bytes));
  }

  void send_to_all(const Frame& frame, int at) {
    const auto hosts = static_cast<int>(polled_.size());
    for (int host = 0; host < hosts; ++host) {
      if (host == frame.from || cable(host).at_switch != at) continue;
      Frame copy = frame;
      copy.to = host;
      enter(cable(host).receives, busy_[static_cast<size_t>(host)][1], std::move(copy));
    }
  }

  void hand_over(Frame frame) {
    const int tap = polled_[static_cast<size_t>(frame.to)].fd;
    // A host whose interface is down loses the frame.
    [[maybe_unused]] const bool is_taken =
        tap >= 0 && write(tap, frame.bytes.data(), frame.bytes.size()) > 0;
    keep(std::move(frame.bytes));
  }

  Bytes take_bytes() {
    if (spare_.empty()) return {};
    Bytes bytes = std::move(spare_.back());
    spare_.pop_back();
    return bytes;
  }
  void keep(Bytes bytes) { spare_.push_back(std::move(bytes)); }

  LinkSettings& shared_;
  std::vector<pollfd> polled_;
  std::array<std::array<Time, 2>, LinkEmulator::kHostsMax> busy_{};  // sends, receives
  std::vector<Frame> waiting_;  // a heap: the frame that is due first
  size_t waiting_bytes_ = 0;
  uint64_t frames_ = 0;
  std::array<char, kFrameBytesMax> newest_{};
  std::vector<Bytes> spare_;
  std::mt19937_64 random_{kSeed};
};

}  // namespace

int LinkEmulator::open_tap() {
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) return -1;
  ifreq request{};
  std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tap, TUNSETIFF, &request) == 0 && set_offloads(tap, true)) return tap;
  const int reason = errno;
  close(tap);
  errno = reason;
  return -1;
}

std::unique_ptr<LinkEmulator> LinkEmulator::start(std::vector<int> taps) {
  void* const memory = mmap(nullptr, sizeof(LinkSettings), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<LinkEmulator> made(
      new LinkEmulator(std::move(taps), std::construct_at(static_cast<LinkSettings*>(memory))));
  made->process_ = fork_child();
  if (made->process_ == 0) {
    prctl(PR_SET_TIMERSLACK, 1);
    const sched_param real_time = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR, &real_time);
    Forwarder(*made->shared_, made->taps_).run();
  }
  return made->process_ > 0 ? std::move(made) : nullptr;
}

LinkEmulator::~LinkEmulator() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  for (const int tap : taps_) close(tap);
  munmap(shared_, sizeof *shared_);
}

void LinkEmulator::set(int host, const LinkOptions& sends, const LinkOptions& receives) {
  LinkSettings::Cable& cable = shared_->cables[static_cast<size_t>(host)];
  cable.sends.set(sends);
  cable.receives.set(receives);
  const bool is_lossy = std::ranges::any_of(shared_->cables, [](const LinkSettings::Cable& any) {
    return any.sends.loss > 0 || any.receives.loss > 0;
  });
  // The device of a host that died refuses it.
  for (const int tap : taps_) set_offloads(tap, !is_lossy);
}

void LinkEmulator::connect(int host, int number) {
  shared_->cables[static_cast<size_t>(host)].at_switch = number;
}

bool LinkEmulator::show_carrier(int host, bool is_on) {
  const int carrier = is_on ? 1 : 0;
  return ioctl(taps_[static_cast<size_t>(host)], TUNSETCARRIER, &carrier) == 0;
}

}  // namespace ffdl::testing
