#include "data/formats/packing.h"

namespace ffdl::data {

using namespace std::string_view_literals;

Packing packing_of(std::span<const std::byte> begin) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (text.starts_with("\x1f\x8b\x08"sv)) return Packing::kGzip;
  if (text.starts_with("\x28\xb5\x2f\xfd"sv)) return Packing::kZstd;
  if (text.starts_with("\xfd\x37zXZ\0"sv)) return Packing::kXz;
  if (text.starts_with("\x04\x22\x4d\x18"sv)) return Packing::kLz4;
  if (text.starts_with("BZh"sv)) {  // a line of text could begin with these alone
    const std::string_view next = text.size() < 4 ? ""sv : text.substr(4, 6);
    if (next == "1AY&SY"sv || next == "\x17\x72\x45\x38\x50\x90"sv) return Packing::kBzip2;
  }
  return Packing::kNone;
}

std::optional<Packing> packing_named(std::string_view name) {
  name = name.substr(0, name.find(':'));  // the suffix is the writer's compression level
  if (name == "zstd") return Packing::kZstd;
  if (name == "gz") return Packing::kGzip;
  if (name == "bz2") return Packing::kBzip2;
  return {};
}

}  // namespace ffdl::data
