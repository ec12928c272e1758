#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/network/links.h"
#include "ffdl/status.h"

// The frames of one connection between two members: a header of fixed size, then the bytes of a
// message. Numbers are little-endian.
namespace ffdl::comm {

enum class FrameKind : uint16_t {
  kMessage = 1,
  kReceipt = 2,  // of the oldest message without one; has no bytes
};

struct TcpFrame {
  FrameKind kind = FrameKind::kMessage;
  Tag tag = Tag::kFirst;
  uint64_t number = 0;  // of the frame in its direction of the connection, from 1
  uint64_t bytes = 0;   // that follow the header
};

inline constexpr size_t kFrameHeaderBytes = 24;
using FrameHeader = std::array<std::byte, kFrameHeaderBytes>;

// The number of tags.
inline constexpr size_t kTagCount = static_cast<size_t>(Tag::kMessage) + 1;

// Returns whether the receiver of a message of `tag` confirms it.
constexpr bool is_confirmed(Tag tag) { return tag == Tag::kMessage; }

FrameHeader to_header(const TcpFrame& frame);

// Checks a header that has arrived as the frame of that number. The bytes of a message have no
// limit here: they must fit into the room of its receiver. Errors: kCorrupt.
Result<TcpFrame> frame_of(std::span<const std::byte, kFrameHeaderBytes> header, uint64_t number);

}  // namespace ffdl::comm
