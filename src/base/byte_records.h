#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

// Encodes a state as bytes: the magic, then numbers and texts in an agreed order (little-endian),
// then a checksum of all these bytes.
namespace ffdl::base {

class ByteWriter {
 public:
  explicit ByteWriter(std::string_view magic) : out_(magic) {}

  void number(uint64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof bytes);
  }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }
  std::string finish() && {
    number(XXH3_64bits(out_.data(), out_.size()));
    return std::move(out_);
  }

 private:
  std::string out_;
};

// Decodes such bytes. After the first number or text that is incomplete, all others are zero and
// empty.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view magic) {
    uint64_t checksum = 0;
    if (bytes.size() < magic.size() + sizeof checksum || !bytes.starts_with(magic)) {
      fail("its first bytes are wrong");
      return;
    }
    const std::string_view body = bytes.substr(0, bytes.size() - sizeof checksum);
    std::memcpy(&checksum, bytes.data() + body.size(), sizeof checksum);
    rest_ = body.substr(magic.size());
    if (checksum != XXH3_64bits(body.data(), body.size())) fail("its checksum is wrong");
  }

  uint64_t number() {
    uint64_t value = 0;
    if (rest_.size() < sizeof value) return fail("it ends too early");
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    if (size > rest_.size()) {
      fail("it ends too early");
      return {};
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  bool failed() const { return !problem_.empty(); }
  // Returns the problem found once everything has been read, such as "it ends too early". Empty:
  // none.
  std::string_view problem() const {
    return failed() || rest_.empty() ? problem_ : "it has bytes after its end";
  }

 private:
  uint64_t fail(std::string_view why) {
    if (!failed()) problem_ = why;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  std::string_view problem_;
};

}  // namespace ffdl::base
