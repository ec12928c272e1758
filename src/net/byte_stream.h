#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ffdl::net {

// The result of one read or write.
struct Moved {
  uint64_t bytes = 0;      // 0: nothing can move at present, unless the stream has ended
  bool has_ended = false;  // nothing will move again
  std::string cause{};     // of the end
};

// A connection that never blocks, with its bytes as they are or encrypted.
// Threads: one at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills `to` in its order as far as bytes have arrived.
  virtual Moved read(std::span<const iovec> to) = 0;
  // Writes bytes of `from` in its order. After a write of fewer bytes the next call begins with the
  // first byte that was not written, and has all bytes that this call had after it.
  virtual Moved write(std::span<const iovec> from) = 0;
  // Ends the connection: the other side reads its end.
  virtual void shut_down() = 0;
};

// Returns a stream of the bytes of `fd` as they are. The caller owns the descriptor, which does not
// block and stays open for as long as the stream exists.
std::unique_ptr<ByteStream> plain_stream(int fd);

// Converts the result of a system call that moves bytes, with its errno. `may_end`: a result of 0
// is the end, as in a read.
Moved moved_by(int64_t result, int error, bool may_end);

}  // namespace ffdl::net
