#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ffdl/status.h"

// Reads and writes messages in a stream of bytes: four bytes of length, little-endian, then the
// message.
namespace ffdl::net {

// Appends `message` as a frame to `out`.
void append_frame(std::string& out, std::string_view message);

// Finds the frames in bytes that arrive in pieces of any size.
// Errors: kCorrupt (a frame is longer than allowed; all later bytes are unreadable too).
class FrameReader {
 public:
  explicit FrameReader(size_t frame_max) : frame_max_(frame_max) {}

  // Applies to the frames that next() has not returned yet.
  void set_frame_max(size_t frame_max) { frame_max_ = frame_max; }
  void feed(std::string_view bytes);
  // Returns the next whole frame, if there is one. It stays valid until the next feed().
  Result<std::optional<std::string_view>> next();

 private:
  size_t frame_max_;
  std::string bytes_;
  size_t given_ = 0;  // bytes of the frames that next() has returned
};

}  // namespace ffdl::net
