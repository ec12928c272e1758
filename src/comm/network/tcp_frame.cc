#include "comm/network/tcp_frame.h"

#include <bit>
#include <cstring>

#include "base/errors.h"

namespace ffdl::comm {
namespace {

static_assert(std::endian::native == std::endian::little);

// The header as it is sent.
struct WireFrame {
  std::array<char, 4> magic;
  uint16_t kind;
  uint16_t tag;
  uint64_t number;
  uint64_t bytes;
};
static_assert(sizeof(WireFrame) == kFrameHeaderBytes);

constexpr std::array<char, 4> kFrameMagic = {'f', 'd', 't', '1'};

}  // namespace

FrameHeader to_header(const TcpFrame& frame) {
  const WireFrame wire = {.magic = kFrameMagic,
                          .kind = static_cast<uint16_t>(frame.kind),
                          .tag = static_cast<uint16_t>(frame.tag),
                          .number = frame.number,
                          .bytes = frame.bytes};
  return std::bit_cast<FrameHeader>(wire);
}

Result<TcpFrame> frame_of(std::span<const std::byte, kFrameHeaderBytes> header, uint64_t number) {
  WireFrame wire;
  std::memcpy(&wire, header.data(), sizeof wire);
  const TcpFrame frame = {.kind = static_cast<FrameKind>(wire.kind),
                          .tag = static_cast<Tag>(wire.tag),
                          .number = wire.number,
                          .bytes = wire.bytes};
  const bool is_receipt = frame.kind == FrameKind::kReceipt;
  if (wire.magic != kFrameMagic || wire.tag >= kTagCount ||
      (frame.kind != FrameKind::kMessage && !is_receipt)) {
    return Status(StatusCode::kCorrupt, "bytes that are not a frame");
  }
  if (wire.number != number) {
    return base::make_error(StatusCode::kCorrupt, "frame {} in place of {}", wire.number, number);
  }
  if (is_receipt && (!is_confirmed(frame.tag) || frame.bytes != 0)) {
    return Status(StatusCode::kCorrupt, "a receipt that confirms nothing");
  }
  return frame;
}

}  // namespace ffdl::comm
