#include "data/formats/tar_member.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

constexpr size_t kBlock = 512;

using Header = std::span<const std::byte, kBlock>;

template <class... Args>
Status no_archive(fmt::format_string<Args...> format, Args&&... args) {
  return base::make_error(StatusCode::kCorrupt, format, std::forward<Args>(args)...);
}

// Returns a text field, up to its first zero byte.
std::string_view text_of(Header header, size_t offset, size_t size) {
  const std::string_view field(reinterpret_cast<const char*>(header.data()) + offset, size);
  return field.substr(0, field.find('\0'));
}

// Parses octal digits between spaces, or a binary number if the highest bit is set.
std::optional<uint64_t> number_of(Header header, size_t offset, size_t size) {
  const auto first = static_cast<uint8_t>(header[offset]);
  if (first == 0x80) {
    uint64_t number = 0;
    for (size_t i = 1; i < size; ++i) {
      if (number >> 56 != 0) return {};
      number = number << 8 | static_cast<uint8_t>(header[offset + i]);
    }
    return number;
  }
  std::string_view digits = text_of(header, offset, size);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  uint64_t number = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number, 8);
  if (digits.empty() || end.ec != std::errc() || end.ptr != digits.data() + digits.size()) {
    return {};
  }
  return number;
}

bool has_checksum(Header header) {
  constexpr size_t kAt = 148;
  constexpr size_t kSize = 8;
  uint64_t sum = kSize * ' ';
  for (size_t i = 0; i < kBlock; ++i) {
    if (i < kAt || i >= kAt + kSize) sum += static_cast<uint8_t>(header[i]);
  }
  return number_of(header, kAt, kSize) == sum;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

uint64_t padded(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

// Values from the headers that precede a member's own.
struct Said {
  std::optional<std::string> path{};
  std::optional<uint64_t> bytes{};
};

// Parses lines "<length of the line> <key>=<value>\n".
bool read_pax(std::string_view text, Said& said) {
  while (!text.empty()) {
    size_t length = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto begin = static_cast<size_t>(end.ptr - text.data()) + 1;
    if (end.ec != std::errc() || length <= begin || length > text.size()) return false;
    if (text[begin - 1] != ' ' || text[length - 1] != '\n') return false;
    const std::string_view line = text.substr(begin, length - 1 - begin);
    text.remove_prefix(length);
    const size_t equals = line.find('=');
    if (equals == line.npos) return false;
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (key == "path") said.path = value;
    if (key.starts_with("GNU.sparse")) return false;
    if (key != "size") continue;
    uint64_t bytes = 0;
    const auto stop = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (stop.ec != std::errc() || stop.ptr != value.data() + value.size()) return false;
    said.bytes = bytes;
  }
  return true;
}

std::string path_of(Header header) {
  const std::string_view name = text_of(header, 0, 100);
  const bool is_ustar = text_of(header, 257, 5) == "ustar" && header[263] == std::byte{'0'};
  const std::string_view prefix = is_ustar ? text_of(header, 345, 155) : "";
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

// Formats the position within a member. The reader knows the beginning of the member.
std::string within(uint64_t offset, uint64_t begin) {
  return offset == begin ? "" : fmt::format(", {} bytes into a member,", offset - begin);
}

// Reads the text that follows a header of type L, x or g.
Result<std::string> read_text(uint64_t offset, uint64_t bytes, const ReadTar& read) {
  if (bytes > base::kHeaderTextMax) return no_archive("a name or header too long");
  FFDL_ASSIGN_OR_RETURN(const auto text, read(offset, static_cast<size_t>(bytes)));
  if (text.size() < bytes) return no_archive("the file ends within a header");
  return std::string(reinterpret_cast<const char*>(text.data()), text.size());
}

}  // namespace

Result<std::optional<TarMember>> read_tar_member(uint64_t offset, const ReadTar& read) {
  TarMember member;
  member.begin = offset;
  Said said;
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const auto block, read(offset, kBlock));
    if (block.size() < kBlock) {
      return no_archive("the file ends without the end of the archive{}",
                        within(offset, member.begin));
    }
    const Header header = block.first<kBlock>();
    if (is_zero(header)) {
      if (offset == member.begin) return std::optional<TarMember>();
      return no_archive("a header without the member that it announces");
    }
    const auto size = number_of(header, 124, 12);
    if (!has_checksum(header) || !size)
      return no_archive("no header of a member{}", within(offset, member.begin));
    const char type = static_cast<char>(header[156]);
    if (type == 'L' || type == 'x' || type == 'g' || type == 'K') {
      FFDL_ASSIGN_OR_RETURN(const std::string text, read_text(offset + kBlock, *size, read));
      if (type == 'L') said.path = text.substr(0, text.find('\0'));
      if (type == 'x' && !read_pax(text, said))
        return no_archive("a bad header{}", within(offset, member.begin));
      offset += kBlock + padded(*size);
      continue;
    }
    member.is_file = type == '0' || type == '\0' || type == '7';
    if (!member.is_file && type != '5') {
      return base::make_error(StatusCode::kUnimplemented,
                              "a link, a device or a sparse file at byte {}; write the archive "
                              "with the files themselves (tar --dereference --hard-dereference)",
                              offset);
    }
    member.data = offset + kBlock;
    member.bytes = member.is_file ? said.bytes.value_or(*size) : 0;
    if (member.bytes > base::kSampleBytesMax)
      return no_archive("a size too large{}", within(offset, member.begin));
    member.end = member.data + padded(member.bytes);
    member.path = said.path ? *said.path : path_of(header);
    return std::optional(std::move(member));
  }
}

TarName split_tar_path(std::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t dot = path.find('.', slash == path.npos ? 0 : slash + 1);
  if (dot == path.npos) return {path, ""};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace ffdl::data
