#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "data/formats/packing.h"

// Compresses files for tests.
namespace ffdl::testing {

// Returns one stream of these bytes.
inline std::string pack(data::Packing packing, std::string_view bytes) {
  using data::Packing;
  std::string packed(2 * bytes.size() + 4096, '\0');
  size_t used = 0;
  archive* to = archive_write_new();
  const int filter = packing == Packing::kGzip    ? ARCHIVE_FILTER_GZIP
                     : packing == Packing::kBzip2 ? ARCHIVE_FILTER_BZIP2
                     : packing == Packing::kXz    ? ARCHIVE_FILTER_XZ
                     : packing == Packing::kZstd  ? ARCHIVE_FILTER_ZSTD
                     : packing == Packing::kLz4   ? ARCHIVE_FILTER_LZ4
                                                  : ARCHIVE_FILTER_NONE;
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
  EXPECT_EQ(archive_write_add_filter(to, filter), ARCHIVE_OK);
  EXPECT_EQ(archive_write_set_format_raw(to), ARCHIVE_OK);
  archive_write_set_bytes_in_last_block(to, 1);
  EXPECT_EQ(archive_write_open_memory(to, packed.data(), packed.size(), &used), ARCHIVE_OK);
  EXPECT_EQ(archive_write_header(to, entry), ARCHIVE_OK);
  EXPECT_EQ(archive_write_data(to, bytes.data(), bytes.size()),
            static_cast<la_ssize_t>(bytes.size()));
  EXPECT_EQ(archive_write_close(to), ARCHIVE_OK);
  archive_write_free(to);
  archive_entry_free(entry);
  packed.resize(used);
  return packed;
}

inline constexpr data::Packing kPackings[] = {data::Packing::kGzip, data::Packing::kBzip2,
                                              data::Packing::kXz, data::Packing::kZstd,
                                              data::Packing::kLz4};

// Returns text that does not compress well, so that there is a middle to break.
inline std::string noise(size_t bytes) {
  std::string text(bytes, '\0');
  uint64_t state = 88172645463325252;
  for (char& c : text) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    c = static_cast<char>('a' + state % 26);
  }
  return text;
}

}  // namespace ffdl::testing
