#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.h"
#include "ffdl/status.h"

namespace ffdl::data {

// What an index says that the bytes of a file hash to.
struct Digest {
  std::string algorithm{};  // by Python's name: "sha1", "xxh64"
  std::string hex{};
};

// Whether we know it: those of hashlib and of xxhash.
bool is_digest(std::string_view algorithm);

// In lower case. The algorithm is one that is_digest().
std::string digest_of(std::string_view algorithm, std::span<const std::byte> bytes);

// Whether the bytes hash to all of them. `path` names the file in the error.
// Errors: kCorrupt; those of reading the file.
Status check_digests(const std::string& path, std::span<const std::byte> bytes,
                     std::span<const Digest> digests);
// The same for all of a file. Blocks: for the disk.
Status check_digests(const InputFile& file, std::span<const Digest> digests);

}  // namespace ffdl::data
