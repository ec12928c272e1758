#include "data/formats/unpack.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

struct FreeArchive {
  void operator()(archive* opened) const { archive_read_free(opened); }
};

// The input that libarchive reads the compressed file from.
struct PackedInput {
  FileScanner scanner;
  uint64_t at = 0;
  Status status{};  // of the last read
};

la_ssize_t give_piece(archive* to, void* context, const void** bytes) {
  PackedInput& input = *static_cast<PackedInput*>(context);
  const auto piece = input.scanner.at(input.at, base::kScanBytes);
  if (!piece.ok()) {
    input.status = piece.status();
    archive_set_error(to, EIO, "the file cannot be read");
    return ARCHIVE_FATAL;
  }
  *bytes = piece->data();
  input.at += piece->size();
  return static_cast<la_ssize_t>(piece->size());
}

int filter_of(Packing packing) {
  switch (packing) {
    case Packing::kBzip2:
      return ARCHIVE_FILTER_BZIP2;
    case Packing::kXz:
      return ARCHIVE_FILTER_XZ;
    case Packing::kZstd:
      return ARCHIVE_FILTER_ZSTD;
    case Packing::kLz4:
      return ARCHIVE_FILTER_LZ4;
    case Packing::kGzip:
    case Packing::kNone:
      break;
  }
  return ARCHIVE_FILTER_NONE;
}

std::string_view text_of(archive* opened) {
  const char* text = archive_error_string(opened);
  return text == nullptr ? "the compressed data are wrong" : text;
}

}  // namespace

Result<Unpacked> unpack(const InputFile& file, Packing packing, const UnpackLimits& limits) {
  if (packing == Packing::kGzip) return gunzip(file, limits);
  PackedInput input{FileScanner(file)};
  const std::unique_ptr<archive, FreeArchive> opened(archive_read_new());
  // Uses this filter alone: its output may look compressed and must stay so.
  if (opened == nullptr || archive_read_support_format_raw(opened.get()) != ARCHIVE_OK ||
      archive_read_support_format_empty(opened.get()) != ARCHIVE_OK ||
      archive_read_append_filter(opened.get(), filter_of(packing)) != ARCHIVE_OK) {
    return base::make_error(StatusCode::kUnimplemented,
                            "unpack '{}': this libarchive cannot; unpack it with another program",
                            file.path());
  }
  Unpacked unpacked;
  unpacked.bytes.reserve(static_cast<size_t>(std::min(limits.expected, limits.bytes)));
  archive_entry* entry = nullptr;
  int got = archive_read_open(opened.get(), &input, nullptr, give_piece, nullptr);
  // libarchive takes a file that is wrong from its first byte for an empty one, and sets an error.
  if (got == ARCHIVE_OK && archive_errno(opened.get()) != 0) got = ARCHIVE_FATAL;
  if (got == ARCHIVE_OK) got = archive_read_next_header(opened.get(), &entry);
  while (got == ARCHIVE_OK) {
    const void* bytes = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    got = archive_read_data_block(opened.get(), &bytes, &size, &offset);
    if (got != ARCHIVE_OK) break;
    FFDL_RETURN_IF_ERROR(unpacked.add(file, limits, {static_cast<const std::byte*>(bytes), size}));
  }
  FFDL_RETURN_IF_ERROR(std::move(input.status));
  if (got != ARCHIVE_EOF) {
    const auto used =
        static_cast<uint64_t>(std::max<la_int64_t>(0, archive_filter_bytes(opened.get(), -1)));
    unpacked.end(file, used, text_of(opened.get()));
  }
  return unpacked;
}

}  // namespace ffdl::data
