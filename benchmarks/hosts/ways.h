#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ffdl/status.h"

// Ways to move the bytes of a connection in both directions, beside send() and recv() after poll().
// The transport of ffdl uses none of them; they are measured for decision 36.
namespace ffdl::bench {

// Sends with MSG_ZEROCOPY: the kernel takes the pages instead of a copy, and reports when it no
// longer needs them. Receives with recv().
Status exchange_zero_copy(int out, int in, std::vector<char>& outgoing, std::vector<char>& incoming,
                          uint64_t bytes);

// A ring of io_uring. It keeps one send and one receive in the kernel, of at most 4 MiB each.
class IoRing {
 public:
  static Result<std::unique_ptr<IoRing>> make();
  ~IoRing();
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;

  Status exchange(int out, int in, std::vector<char>& outgoing, std::vector<char>& incoming,
                  uint64_t bytes);

 private:
  explicit IoRing(int fd) : fd_(fd) {}
  Status map(const void* parameters);
  void queue(uint8_t operation, int fd, void* data, uint64_t size);
  Status submit_and_wait();

  const int fd_;
  void* rings_ = nullptr;
  size_t rings_bytes_ = 0;
  void* entries_ = nullptr;
  size_t entries_bytes_ = 0;
  // Offsets in the rings, as the kernel reports them.
  uint32_t sq_tail_ = 0, sq_mask_ = 0, sq_array_ = 0, cq_head_ = 0, cq_tail_ = 0, cq_mask_ = 0,
           cq_entries_ = 0;
  uint32_t queued_ = 0;
};

}  // namespace ffdl::bench
