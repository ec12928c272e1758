#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ffdl/status.h"

namespace ffdl::data {

// One file of a tar archive (POSIX ustar, with the long names of GNU and of pax).
struct TarMember {
  uint64_t begin = 0;  // of its first header
  uint64_t data = 0;   // where its bytes begin
  uint64_t bytes = 0;
  uint64_t end = 0;  // where the next member begins
  std::string path{};
  bool is_file = true;  // or a folder
};

// Gives up to `bytes` of the archive from `offset`, fewer only at its end; until the next call.
using ReadTar = std::function<Result<std::span<const std::byte>>(uint64_t offset, size_t bytes)>;

// The member whose first header is at `offset`; none: the end of the archive is there. An archive
// that ends in any other way was cut short. Whether its data are all there is for the caller to
// see. Errors: kCorrupt ("<what> at byte <where>"), kUnimplemented (links, devices, sparse files),
// those
//         of `read`.
Result<std::optional<TarMember>> read_tar_member(uint64_t offset, const ReadTar& read);

// What WebDataset makes of a path: "a/b.c.d" is the key "a/b" and the name "c.d".
struct TarName {
  std::string_view key;
  std::string_view name;
};
TarName split_tar_path(std::string_view path);

}  // namespace ffdl::data
