// Reads arbitrary bytes as what another process sends on a connection of Backend::kTcp, in pieces
// of any size and with receives for some of its messages. No message reaches memory that it was not
// given, and nothing is left of a message that does not fit.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "comm/network/tcp_connection.h"

using ffdl::comm::OpenTransfers;
using ffdl::comm::Tag;
using ffdl::comm::TcpConnection;
using ffdl::net::Moved;

namespace {

// Gives the bytes of the input in pieces, then its end. Takes what is written, and drops it.
class Input final : public ffdl::net::ByteStream {
 public:
  Input(const uint8_t* data, size_t size, size_t piece) : data_(data), size_(size), piece_(piece) {}

  Moved read(std::span<const iovec> to) override {
    if (size_ == 0) return {.has_ended = true, .cause = "the end of the input"};
    size_t left = std::min(size_, piece_);
    Moved moved;
    for (const iovec& part : to) {
      const size_t bytes = std::min(left, part.iov_len);
      if (bytes > 0) std::memcpy(part.iov_base, data_, bytes);
      data_ += bytes;
      size_ -= bytes;
      left -= bytes;
      moved.bytes += bytes;
    }
    return moved;
  }
  Moved write(std::span<const iovec> from) override {
    Moved moved;
    for (const iovec& part : from) moved.bytes += part.iov_len;
    return moved;
  }
  void shut_down() override {}

 private:
  const uint8_t* data_;
  size_t size_;
  const size_t piece_;
};

// Memory for a message, with bytes around it that no message may change.
struct Room {
  std::array<std::byte, 8> before{};
  std::array<std::byte, 64> data{};
  std::array<std::byte, 8> after{};
};

}  // namespace

// The first byte is the size of the pieces, the second the number of receives per tag.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  TcpConnection connection(std::make_unique<Input>(data + 2, size - 2, size_t{1} + data[0]));
  OpenTransfers open;
  std::array<Room, 5 * 8> rooms;
  size_t used = 0;
  const std::byte word{1};
  connection.send(Tag::kMessage, &word, 1, open);
  for (size_t tag = 0; tag < ffdl::comm::kTagCount; ++tag) {
    for (size_t i = 0; i < data[1] % 9U; ++i) {
      std::array<std::byte, 64>& room = rooms[used++].data;
      connection.receive(static_cast<Tag>(tag), room.data(), room.size(), open);
    }
  }
  while (connection.move()) {
  }
  for (const Room& room : rooms) {
    const auto is_untouched = [](std::byte one) { return one == std::byte{0}; };
    FFDL_CHECK(std::ranges::all_of(room.before, is_untouched) &&
                   std::ranges::all_of(room.after, is_untouched),
               "a message stays in its room");
  }
  FFDL_CHECK(open.count <= used + 1, "a transfer completes once");
  connection.forget(open);
  FFDL_CHECK(connection.loss_for(open).ok(), "nothing is left of what was forgotten");
  return 0;
}
