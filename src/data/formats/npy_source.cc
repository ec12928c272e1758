#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/file_source.h"
#include "data/formats/npy_header.h"

namespace ffdl {
namespace {

using base::make_error;
using data::FileScanner;
using data::NpyHeader;
using data::SampleTable;

Result<NpyHeader> read_header(FileScanner& file) {
  const auto text_of = [](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  FFDL_ASSIGN_OR_RETURN(const auto begin, file.at(0, 12));
  FFDL_ASSIGN_OR_RETURN(const uint64_t size, data::npy_header_bytes(text_of(begin)));
  FFDL_ASSIGN_OR_RETURN(const auto header, file.at(0, static_cast<size_t>(size)));
  return data::parse_npy_header(text_of(header));
}

// Returns the bytes of one row of a header's array, or nothing if they exceed the limit.
std::optional<uint64_t> row_bytes(const NpyHeader& header) {
  uint64_t bytes = header.item_bytes;
  for (size_t axis = 1; axis < header.shape.size(); ++axis) {
    if (__builtin_mul_overflow(bytes, header.shape[axis], &bytes)) return {};
  }
  if (bytes > base::kSampleBytesMax) return {};
  return bytes;
}

Result<SampleTable> find_rows(FileScanner& file, bool skip_corrupt) {
  auto read = read_header(file);
  if (!read.ok()) {
    return std::move(read).status().with_context(fmt::format("open array '{}'", file.path()));
  }
  const NpyHeader& header = *read;
  if (header.fortran_order && header.shape.size() > 1) {
    return make_error(StatusCode::kUnimplemented,
                      "open array '{}': it is in Fortran order, in which a row is scattered; save "
                      "numpy.ascontiguousarray() of it",
                      file.path());
  }
  const auto bytes = row_bytes(header);
  uint64_t end = 0;
  if (header.shape.empty() || !bytes || *bytes == 0 ||
      __builtin_mul_overflow(header.shape[0], *bytes, &end) ||
      __builtin_add_overflow(end, header.data_offset, &end)) {
    return base::invalid_argument(
        "open array '{}': its shape has no rows, or rows of no bytes or too many; name another",
        file.path());
  }
  SampleTable table;
  uint64_t rows = header.shape[0];
  if (end != file.size()) {
    const Status why = make_error(StatusCode::kCorrupt,
                                  "open array '{}': its header describes {} bytes and the file has "
                                  "{}; copy or save it again, or leave out what follows with "
                                  "FileOptions::skip_corrupt",
                                  file.path(), end, file.size());
    if (!skip_corrupt) return why;
    rows = std::min(rows, (file.size() - header.data_offset) / *bytes);
    table.skipped = {0, file.size() - header.data_offset - rows * *bytes,
                     std::string(why.message())};
  }
  table.format = {header.dtype, {header.shape.begin() + 1, header.shape.end()}, *bytes, true};
  table.count = rows;
  table.first = header.data_offset;
  table.stride = *bytes;
  return table;
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_npy(const std::vector<std::string>& paths,
                                             const FileOptions& options) {
  return data::open_files(paths, options, [](FileScanner& file, bool skip_corrupt) {
    return find_rows(file, skip_corrupt);
  });
}

}  // namespace ffdl
