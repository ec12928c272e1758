#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ffdl/status.h"

// Messages in a stream of bytes: four bytes of length, little-endian, then the message.
namespace ffdl::net {

// Appends `message` as a frame to `out`.
void append_frame(std::string& out, std::string_view message);

// Finds the frames in bytes that come in pieces of any size.
// Errors: kCorrupt (a frame is longer than allowed; what follows cannot be understood either).
class FrameReader {
 public:
  explicit FrameReader(size_t frame_max) : frame_max_(frame_max) {}

  // For the frames that next() has not given yet.
  void set_frame_max(size_t frame_max) { frame_max_ = frame_max; }
  void feed(std::string_view bytes);
  // The next whole frame, if there is one; it stays valid until the next feed().
  Result<std::optional<std::string_view>> next();

 private:
  size_t frame_max_;
  std::string bytes_;
  size_t given_ = 0;  // bytes of the frames that next() has given
};

}  // namespace ffdl::net
