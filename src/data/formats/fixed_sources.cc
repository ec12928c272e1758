// Formats of adjacent samples of one size: records and tokens.
#include <fmt/format.h>

#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/file_source.h"

namespace ffdl {
namespace {

using base::invalid_argument;
using data::FileScanner;
using data::SampleTable;

Status has_header(const FileScanner& file, uint64_t header_bytes) {
  if (header_bytes <= file.size()) return {};
  return invalid_argument(
      "open data file '{}': it has {} bytes, fewer than header_bytes {}; check "
      "header_bytes, or whether the file is whole",
      file.path(), file.size(), header_bytes);
}

Result<SampleTable> find_records(const FileScanner& file, const RecordOptions& options) {
  FFDL_RETURN_IF_ERROR(has_header(file, options.header_bytes));
  const uint64_t bytes = file.size() - options.header_bytes;
  if (bytes % options.record_bytes != 0) {
    return invalid_argument(
        "open data file '{}': {} bytes are left at byte {} after {} records of {} bytes; check "
        "record_bytes and header_bytes, or whether the file is whole",
        file.path(), bytes % options.record_bytes, file.size() - bytes % options.record_bytes,
        bytes / options.record_bytes, options.record_bytes);
  }
  SampleTable table;
  table.format = {"|u1", {options.record_bytes}, options.record_bytes, true};
  table.count = bytes / options.record_bytes;
  table.first = options.header_bytes;
  table.stride = options.record_bytes;
  return table;
}

Result<SampleTable> find_windows(const FileScanner& file, const TokenOptions& options) {
  FFDL_RETURN_IF_ERROR(has_header(file, options.header_bytes));
  const uint64_t bytes = file.size() - options.header_bytes;
  if (bytes % options.token_bytes != 0) {
    return invalid_argument(
        "open data file '{}': its {} bytes are no whole number of tokens of {} bytes; check "
        "token_bytes and header_bytes, or whether the file is whole",
        file.path(), bytes, options.token_bytes);
  }
  const uint64_t tokens = bytes / options.token_bytes;
  const uint64_t stride = options.stride == 0 ? options.window : options.stride;
  SampleTable table;
  table.format = {options.token_bytes == 2 ? "<u2" : "<u4",
                  {options.window + 1},
                  (options.window + 1) * options.token_bytes,
                  true};
  table.count = tokens > options.window ? (tokens - options.window - 1) / stride + 1 : 0;
  table.first = options.header_bytes;
  table.stride = stride * options.token_bytes;
  const uint64_t used = table.count == 0 ? 0 : (table.count - 1) * stride + options.window + 1;
  if (used < tokens) {
    table.skipped.bytes = (tokens - used) * options.token_bytes;
    table.skipped.first =
        fmt::format("open data file '{}': its last {} tokens fill no window of {}", file.path(),
                    tokens - used, options.window);
  }
  return table;
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_records(const std::vector<std::string>& paths,
                                                 const RecordOptions& records,
                                                 const FileOptions& options) {
  if (records.record_bytes == 0 || records.record_bytes > base::kSampleBytesMax) {
    return invalid_argument("open records: record_bytes is {}; give 1 to {}", records.record_bytes,
                            base::kSampleBytesMax);
  }
  return data::open_files(paths, options,
                          [&](FileScanner& file, bool) { return find_records(file, records); });
}

Result<std::unique_ptr<DataSource>> open_tokens(const std::vector<std::string>& paths,
                                                const TokenOptions& tokens,
                                                const FileOptions& options) {
  if (tokens.window == 0 || tokens.window > base::kSampleBytesMax / 8 ||
      tokens.stride > base::kSampleBytesMax / 8) {
    return invalid_argument("open tokens: window is {} and stride {}; give a window of 1 to {}",
                            tokens.window, tokens.stride, base::kSampleBytesMax / 8);
  }
  if (tokens.token_bytes != 2 && tokens.token_bytes != 4) {
    return invalid_argument("open tokens: token_bytes is {}; give 2 (uint16) or 4 (uint32)",
                            tokens.token_bytes);
  }
  return data::open_files(paths, options,
                          [&](FileScanner& file, bool) { return find_windows(file, tokens); });
}

}  // namespace ffdl
