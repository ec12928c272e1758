#include <zlib.h>

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/unpack.h"

namespace ffdl::data {
namespace {

class Inflater {
 public:
  Inflater() : is_open_(inflateInit2(&stream_, 15 + 16) == Z_OK) {}  // accepts only gzip's header
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool is_open() const { return is_open_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  const bool is_open_;
};

}  // namespace

Result<Unpacked> gunzip(const InputFile& file, const UnpackLimits& limits) {
  Inflater inflater;
  if (!inflater.is_open()) {
    return base::make_error(StatusCode::kExhausted, "unpack '{}': no memory for it; free some",
                            file.path());
  }
  z_stream& stream = inflater.stream();
  FileScanner scanner(file);
  Unpacked unpacked;
  unpacked.bytes.reserve(static_cast<size_t>(std::min(limits.expected, limits.bytes)));
  std::array<std::byte, 65536> piece;
  bool is_within = true;  // inside a stream of the file
  for (uint64_t at = 0;;) {
    FFDL_ASSIGN_OR_RETURN(const auto input, scanner.at(at, base::kScanBytes));
    if (input.empty()) {
      if (is_within) unpacked.end(file, at, "the compressed data end too early");
      return unpacked;
    }
    if (!is_within) {  // another stream
      inflateReset(&stream);
      is_within = true;
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
    int got = Z_OK;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = piece.size();
      got = inflate(&stream, Z_NO_FLUSH);
      FFDL_RETURN_IF_ERROR(
          unpacked.add(file, limits, std::span(piece).first(piece.size() - stream.avail_out)));
    } while (got == Z_OK && (stream.avail_in > 0 || stream.avail_out == 0));
    at += input.size() - stream.avail_in;
    if (got == Z_STREAM_END) {
      is_within = false;
    } else if (got != Z_OK && got != Z_BUF_ERROR) {
      unpacked.end(file, at, stream.msg == nullptr ? "the compressed data are wrong" : stream.msg);
      return unpacked;
    }
  }
}

}  // namespace ffdl::data
