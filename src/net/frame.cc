#include "net/frame.h"

#include <cstdint>

#include "base/check.h"
#include "base/errors.h"

namespace ffdl::net {
namespace {

constexpr size_t kLengthBytes = 4;

}  // namespace

void append_frame(std::string& out, std::string_view message) {
  FFDL_CHECK(message.size() <= UINT32_MAX, "limits keep messages far below 4 GiB");
  for (size_t i = 0; i < kLengthBytes; ++i) {
    out.push_back(static_cast<char>((message.size() >> (8 * i)) & 0xff));
  }
  out.append(message);
}

void FrameReader::feed(std::string_view bytes) {
  bytes_.erase(0, given_);
  given_ = 0;
  bytes_.append(bytes);
}

Result<std::optional<std::string_view>> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(given_);
  if (rest.size() < kLengthBytes) return std::optional<std::string_view>();
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= size_t{static_cast<unsigned char>(rest[i])} << (8 * i);
  }
  if (length > frame_max_) {
    return base::make_error(StatusCode::kCorrupt,
                            "read a message: it has {} bytes, at most {} are allowed; is the other "
                            "side another program",
                            length, frame_max_);
  }
  if (rest.size() < kLengthBytes + length) return std::optional<std::string_view>();
  given_ += kLengthBytes + length;
  return std::optional(rest.substr(kLengthBytes, length));
}

}  // namespace ffdl::net
