#include "benchmarks/limits.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/statistics.h"

namespace ffdl::bench {
namespace {

constexpr int kWakingRounds = 64;

// Runs loop(begin, end) on each member's part of `count` elements.
template <class Loop>
double timed(Team& team, size_t count, Loop loop) {
  const std::function<void(int)> work = [&](int member) {
    const auto [begin, end] = team.part(count, member);
    loop(begin, end);
  };
  return seconds_of([&] { team.run(work); });
}

void set_no_delay(int socket) {
  constexpr int kOn = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
}

bool send_all(int socket, const std::vector<char>& message) {
  return send(socket, message.data(), message.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

bool receive_all(int socket, std::vector<char>& message) {
  return recv(socket, message.data(), message.size(), MSG_WAITALL) ==
         static_cast<ssize_t>(message.size());
}

}  // namespace

uint64_t sum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  size_t at = 0;
  for (; at + sizeof sum <= bytes.size(); at += sizeof sum) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += word;
  }
  for (; at < bytes.size(); ++at) sum += static_cast<uint64_t>(bytes[at]);
  return sum;
}

uint64_t sum_of_records(std::span<const std::byte> file, size_t record_bytes,
                        std::span<const uint64_t> order, std::span<std::byte> buffer) {
  constexpr size_t kAhead = 8;
  constexpr size_t kLine = 64;
  constexpr size_t kLinesMax = 8;  // the processor itself fetches the rest of a long record
  uint64_t sum = 0;
  size_t place = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) {
      const std::byte* next = file.data() + order[i + kAhead] * record_bytes;
      for (size_t line = 0; line < std::min(kLinesMax, record_bytes / kLine + 1); ++line) {
        __builtin_prefetch(next + line * kLine);
      }
    }
    auto record = file.subspan(order[i] * record_bytes, record_bytes);
    if (!buffer.empty()) {
      if (place + record_bytes > buffer.size()) place = 0;
      std::memcpy(buffer.data() + place, record.data(), record_bytes);
      record = buffer.subspan(place, record_bytes);
      place += record_bytes;
    }
    sum += sum_of(record);
  }
  return sum;
}

double traffic_s(Team& team, Memory& a) {
  float* const x = a.floats().data();
  return timed(team, a.floats().size(), [x](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) x[i] += 1.0F;
  });
}

double traffic_bytes_per_s(Team& team, size_t bytes) {
  constexpr int kPasses = 15;
  Memory a(bytes);
  traffic_s(team, a);
  std::vector<double> seconds;
  for (int i = 0; i < kPasses; ++i) seconds.push_back(traffic_s(team, a));
  return 2 * static_cast<double>(bytes) / median(std::move(seconds));
}

double copy_s(void* to, const void* from, size_t bytes) {
  return seconds_of([&] { std::memcpy(to, from, bytes); });
}

double sgd_s(Team& team, Memory& weights, const Memory& gradient, float rate) {
  float* __restrict const a = weights.floats().data();
  const float* __restrict const b = gradient.floats().data();
  return timed(team, weights.floats().size(), [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) a[i] -= rate * b[i];
  });
}

double momentum_s(Team& team, Memory& weights, Memory& velocity, const Memory& gradient, float rate,
                  float momentum) {
  float* __restrict const w = weights.floats().data();
  float* __restrict const v = velocity.floats().data();
  const float* __restrict const g = gradient.floats().data();
  return timed(team, weights.floats().size(), [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      v[i] = momentum * v[i] + g[i];
      w[i] -= rate * v[i];
    }
  });
}

double adam_s(Team& team, Memory& weights, Memory& mean, Memory& square, const Memory& gradient,
              const AdamNumbers& numbers) {
  float* __restrict const w = weights.floats().data();
  float* __restrict const m = mean.floats().data();
  float* __restrict const v = square.floats().data();
  const float* __restrict const g = gradient.floats().data();
  const AdamNumbers n = numbers;
  return timed(team, weights.floats().size(), [=](size_t begin, size_t end) {
    const float step = n.rate / n.correction1;
    const float root = std::sqrt(n.correction2);
    for (size_t i = begin; i < end; ++i) {
      m[i] = n.beta1 * m[i] + (1 - n.beta1) * g[i];
      v[i] = n.beta2 * v[i] + (1 - n.beta2) * g[i] * g[i];
      w[i] -= step * m[i] / (std::sqrt(v[i]) / root + n.epsilon);
    }
  });
}

struct PingPong::Lines {
  alignas(64) std::atomic<uint32_t> ping{0};
  alignas(64) std::atomic<uint32_t> pong{0};
};

PingPong::PingPong(int partner_cpu)
    : memory_(sizeof(Lines), Memory::Sharing::kWithChildren), wake_(-1), partner_(0) {
  auto* lines = new (memory_.data()) Lines;
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return;
  partner_ = fork();
  if (partner_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pipe_ends[1]);
    stay_on({partner_cpu});
    uint32_t seen = 0;
    for (int rounds = 0; read(pipe_ends[0], &rounds, sizeof(rounds)) == sizeof(rounds);) {
      for (; rounds > 0; --rounds) {
        while (lines->ping.load(std::memory_order_acquire) == seen) {
        }
        lines->pong.store(++seen, std::memory_order_release);
      }
    }
    _exit(0);
  }
  close(pipe_ends[0]);
  wake_ = pipe_ends[1];
}

PingPong::~PingPong() {
  close(wake_);
  if (partner_ > 0) waitpid(partner_, nullptr, 0);
}

double PingPong::seconds(int count) {
  auto* lines = static_cast<Lines*>(memory_.data());
  const auto go = [&](int rounds) {
    uint32_t sent = lines->ping.load(std::memory_order_relaxed);
    for (; rounds > 0; --rounds) {
      lines->ping.store(++sent, std::memory_order_release);
      while (lines->pong.load(std::memory_order_acquire) != sent) {
      }
    }
  };
  const int rounds = kWakingRounds + count;
  if (write(wake_, &rounds, sizeof(rounds)) != sizeof(rounds)) return 0;
  go(kWakingRounds);
  return seconds_of([&] { go(count); });
}

LoopbackTrips::LoopbackTrips(size_t message_bytes) : message_(message_bytes, 'm') {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, any, size) == 0 && listen(listener, 1) == 0 &&
      getsockname(listener, any, &size) == 0) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    partner_ = fork();
    if (partner_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(socket_);
      const int peer = accept(listener, nullptr, nullptr);
      set_no_delay(peer);
      while (receive_all(peer, message_) && send_all(peer, message_)) {
      }
      _exit(0);
    }
    if (connect(socket_, any, size) == 0) set_no_delay(socket_);
  }
  close(listener);
}

LoopbackTrips::~LoopbackTrips() {
  close(socket_);
  if (partner_ > 0) waitpid(partner_, nullptr, 0);
}

double LoopbackTrips::seconds(int count) {
  bool there = true;
  const double taken = seconds_of([&] {
    for (int i = 0; i < count && there; ++i) {
      there = send_all(socket_, message_) && receive_all(socket_, message_);
    }
  });
  return there ? taken : 0;
}

std::vector<int> processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> usable;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) usable.push_back(cpu);
  }
  return usable;
}

void stay_on(const std::vector<int>& chosen) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : chosen) CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace ffdl::bench
