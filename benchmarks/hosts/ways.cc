#include "benchmarks/hosts/ways.h"

#include <fmt/format.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace ffdl::bench {
namespace {

constexpr int kStillMs = 60'000;
constexpr uint64_t kCallBytes = 4 << 20;  // of one call

Status not_done(const char* what, int error) {
  return {StatusCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(error))};
}

uint64_t piece_of(uint64_t left, const std::vector<char>& buffer) {
  return std::min<uint64_t>({left, buffer.size(), kCallBytes});
}

// Takes the kernel's reports that it needs pages no longer. Returns how many sends they cover.
uint64_t take_reports(int socket) {
  uint64_t covered = 0;
  while (true) {
    alignas(cmsghdr) std::array<char, 128> control{};
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return covered;
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      sock_extended_err report{};
      std::memcpy(&report, CMSG_DATA(one), sizeof report);
      if (report.ee_origin == SO_EE_ORIGIN_ZEROCOPY) covered += report.ee_data - report.ee_info + 1;
    }
  }
}

}  // namespace

Status exchange_zero_copy(int out, int in, std::vector<char>& outgoing, std::vector<char>& incoming,
                          uint64_t bytes) {
  constexpr int kOn = 1;
  if (setsockopt(out, SOL_SOCKET, SO_ZEROCOPY, &kOn, sizeof kOn) != 0) {
    return not_done("set SO_ZEROCOPY", errno);
  }
  uint64_t to_send = bytes;
  uint64_t to_receive = bytes;
  uint64_t open = 0;  // sends whose pages the kernel may still need
  while (to_send > 0 || to_receive > 0 || open > 0) {
    std::array<pollfd, 2> polled = {pollfd{out, static_cast<short>(to_send > 0 ? POLLOUT : 0), 0},
                                    pollfd{to_receive > 0 ? in : -1, POLLIN, 0}};
    if (poll(polled.data(), polled.size(), kStillMs) <= 0) return not_done("poll", errno);
    if ((polled[0].revents & POLLERR) != 0) open -= std::min(open, take_reports(out));
    if ((polled[0].revents & POLLOUT) != 0) {
      const ssize_t sent = send(out, outgoing.data(), piece_of(to_send, outgoing),
                                MSG_DONTWAIT | MSG_NOSIGNAL | MSG_ZEROCOPY);
      if (sent > 0) ++open;
      if (sent > 0) to_send -= static_cast<uint64_t>(sent);
      if (sent < 0 && errno != EAGAIN && errno != ENOBUFS) return not_done("send", errno);
    }
    if (polled[1].revents != 0) {
      const ssize_t got = recv(in, incoming.data(), piece_of(to_receive, incoming), MSG_DONTWAIT);
      if (got > 0) to_receive -= static_cast<uint64_t>(got);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return not_done("receive", errno);
    }
  }
  return {};
}

Result<std::unique_ptr<IoRing>> IoRing::make() {
  io_uring_params parameters{};
  const auto fd = static_cast<int>(syscall(__NR_io_uring_setup, 8, &parameters));
  if (fd < 0) return not_done("set up io_uring", errno);
  auto made = std::unique_ptr<IoRing>(new IoRing(fd));
  FFDL_RETURN_IF_ERROR(made->map(&parameters));
  return made;
}

IoRing::~IoRing() {
  if (rings_ != nullptr) munmap(rings_, rings_bytes_);
  if (entries_ != nullptr) munmap(entries_, entries_bytes_);
  close(fd_);
}

Status IoRing::map(const void* parameters) {
  const auto& given = *static_cast<const io_uring_params*>(parameters);
  if ((given.features & IORING_FEAT_SINGLE_MMAP) == 0) {
    return {StatusCode::kUnimplemented, "map io_uring: Linux 5.4 or newer is needed"};
  }
  rings_bytes_ = std::max<size_t>(given.sq_off.array + given.sq_entries * sizeof(uint32_t),
                                  given.cq_off.cqes + given.cq_entries * sizeof(io_uring_cqe));
  entries_bytes_ = given.sq_entries * sizeof(io_uring_sqe);
  const auto map_at = [&](size_t size, off_t offset) -> void* {
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, offset);
    return at == MAP_FAILED ? nullptr : at;
  };
  rings_ = map_at(rings_bytes_, IORING_OFF_SQ_RING);
  entries_ = map_at(entries_bytes_, IORING_OFF_SQES);
  if (rings_ == nullptr || entries_ == nullptr) return not_done("map io_uring", errno);
  sq_tail_ = given.sq_off.tail;
  sq_mask_ = given.sq_off.ring_mask;
  sq_array_ = given.sq_off.array;
  cq_head_ = given.cq_off.head;
  cq_tail_ = given.cq_off.tail;
  cq_mask_ = given.cq_off.ring_mask;
  cq_entries_ = given.cq_off.cqes;
  return {};
}

void IoRing::queue(uint8_t operation, int fd, void* data, uint64_t size) {
  auto* const base = static_cast<char*>(rings_);
  const auto word = [&](uint32_t offset) { return reinterpret_cast<uint32_t*>(base + offset); };
  const uint32_t tail = *word(sq_tail_);
  const uint32_t index = tail & *word(sq_mask_);
  io_uring_sqe& entry = static_cast<io_uring_sqe*>(entries_)[index];
  std::memset(&entry, 0, sizeof entry);
  entry.opcode = operation;
  entry.fd = fd;
  entry.addr = reinterpret_cast<uint64_t>(data);
  entry.len = static_cast<uint32_t>(size);
  entry.msg_flags = operation == IORING_OP_SEND ? MSG_NOSIGNAL : 0;
  entry.user_data = operation;
  word(sq_array_)[index] = index;
  std::atomic_ref(*word(sq_tail_)).store(tail + 1, std::memory_order_release);
  ++queued_;
}

Status IoRing::submit_and_wait() {
  const long done =
      syscall(__NR_io_uring_enter, fd_, queued_, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
  if (done < 0 && errno != EINTR) return not_done("enter io_uring", errno);
  if (done > 0) queued_ -= std::min(queued_, static_cast<uint32_t>(done));
  return {};
}

Status IoRing::exchange(int out, int in, std::vector<char>& outgoing, std::vector<char>& incoming,
                        uint64_t bytes) {
  uint64_t to_send = bytes;
  uint64_t to_receive = bytes;
  queue(IORING_OP_SEND, out, outgoing.data(), piece_of(to_send, outgoing));
  queue(IORING_OP_RECV, in, incoming.data(), piece_of(to_receive, incoming));
  auto* const base = static_cast<char*>(rings_);
  const auto word = [&](uint32_t offset) { return reinterpret_cast<uint32_t*>(base + offset); };
  while (to_send > 0 || to_receive > 0) {
    FFDL_RETURN_IF_ERROR(submit_and_wait());
    uint32_t head = *word(cq_head_);
    while (head != std::atomic_ref(*word(cq_tail_)).load(std::memory_order_acquire)) {
      const io_uring_cqe& done =
          reinterpret_cast<io_uring_cqe*>(base + cq_entries_)[head & *word(cq_mask_)];
      const bool is_send = done.user_data == IORING_OP_SEND;
      const int moved = done.res;
      std::atomic_ref(*word(cq_head_)).store(++head, std::memory_order_release);
      if (moved <= 0) return not_done("exchange by io_uring", -moved);
      uint64_t& left = is_send ? to_send : to_receive;
      std::vector<char>& buffer = is_send ? outgoing : incoming;
      left -= static_cast<uint64_t>(moved);
      if (left > 0) {
        queue(is_send ? IORING_OP_SEND : IORING_OP_RECV, is_send ? out : in, buffer.data(),
              piece_of(left, buffer));
      }
    }
  }
  return {};
}

}  // namespace ffdl::bench
