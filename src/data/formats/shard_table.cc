#include "data/formats/shard_table.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace ffdl::data {
namespace {

uint32_t word_at(std::span<const std::byte> bytes, size_t i) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
  return word;
}

// The end of a chunk in which newer versions of LitData store rows of plain values in another
// format.
constexpr std::string_view kArrowRows("LDARW01\0", 8);

bool is_arrow_rows(std::span<const std::byte> end) {
  return std::memcmp(end.data(), kArrowRows.data(), kArrowRows.size()) == 0;
}

}  // namespace

Result<SampleTable> find_shard_samples(FileScanner& file, const ShardContents& said) {
  const auto bad_shard = [&](std::string_view what, uint64_t offset) {
    return base::make_error(StatusCode::kCorrupt,
                            "open shard '{}': {} at byte {}; replace it, or write the index again",
                            file.path(), what, offset);
  };
  if (file.size() != said.bytes) {
    return base::make_error(StatusCode::kCorrupt,
                            "open shard '{}': it has {} bytes{} and {} in the index; replace it, "
                            "or write the index again",
                            file.path(), file.size(), file.is_unpacked() ? " unpacked" : "",
                            said.bytes);
  }
  FFDL_ASSIGN_OR_RETURN(const auto begin, file.at(0, 4));
  if (begin.size() < 4) return bad_shard("it ends before its number of samples", 0);
  const uint64_t samples = word_at(begin, 0);
  if (samples != said.samples) {
    return bad_shard(fmt::format("it has {} samples and {} in the index", samples, said.samples),
                     0);
  }
  const auto table_bytes = static_cast<size_t>(4 * (samples + 1));
  FFDL_ASSIGN_OR_RETURN(const auto offsets, file.at(4, table_bytes));
  if (offsets.size() < table_bytes) return bad_shard("it ends within its offsets", 4);
  std::vector<Extent> extents;
  uint64_t at = word_at(offsets, 0);
  if (at < 4 + table_bytes) return bad_shard("its first sample is within its offsets", 4);
  for (size_t i = 1; i <= samples; ++i) {
    const uint64_t end = word_at(offsets, i);
    if (end < at || end > file.size()) return bad_shard("an offset is wrong", 4 + 4 * i);
    extents.push_back({at, end - at});
    at = end;
  }
  if (at != file.size()) {
    FFDL_ASSIGN_OR_RETURN(const auto end,
                          file.at(file.size() - kArrowRows.size(), kArrowRows.size()));
    if (!is_arrow_rows(end)) return bad_shard("bytes of no sample follow", at);
    return base::make_error(StatusCode::kUnimplemented,
                            "open shard '{}': its rows are a table of Arrow behind byte {}; write "
                            "them as Parquet, or as bytes and arrays",
                            file.path(), at);
  }
  SampleTable table;
  add_listed(table, std::move(extents));
  return table;
}

}  // namespace ffdl::data
