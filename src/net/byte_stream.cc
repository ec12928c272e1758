#include "net/byte_stream.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/errors.h"

namespace ffdl::net {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}

  Moved read(std::span<const iovec> to) override {
    const msghdr message = message_of(to);
    const ssize_t got = ::recvmsg(fd_, const_cast<msghdr*>(&message), MSG_DONTWAIT);
    return moved_by(got, errno, /*may_end=*/true);
  }

  Moved write(std::span<const iovec> from) override {
    const msghdr message = message_of(from);
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return moved_by(sent, errno, /*may_end=*/false);
  }

  void shut_down() override { ::shutdown(fd_, SHUT_RDWR); }

 private:
  // The kernel writes to the memory of a read, and to nothing else of the message.
  static msghdr message_of(std::span<const iovec> parts) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    return message;
  }

  const int fd_;
};

}  // namespace

std::unique_ptr<ByteStream> plain_stream(int fd) { return std::make_unique<PlainStream>(fd); }

Moved moved_by(int64_t result, int error, bool may_end) {
  if (result > 0) return {.bytes = static_cast<uint64_t>(result)};
  if (result == 0) {
    if (!may_end) return {};
    return {.has_ended = true, .cause = "it has closed its connection"};
  }
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return {};
  return {.has_ended = true, .cause = base::errno_text(error)};
}

}  // namespace ffdl::net
