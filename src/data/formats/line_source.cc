#include <cstring>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "data/formats/file_source.h"
#include "data/formats/packed_source.h"

namespace ffdl {
namespace {

using data::Extent;
using data::FileScanner;
using data::SampleTable;

std::string_view check_json(std::span<const std::byte> line) {
  const auto* text = reinterpret_cast<const char*>(line.data());
  return nlohmann::json::accept(text, text + line.size()) ? "" : "the line is not JSON";
}

Result<SampleTable> find_lines(FileScanner& file, bool as_json) {
  std::vector<Extent> lines;
  uint64_t begin = 0;  // start of the current line
  for (uint64_t at = 0; at < file.size();) {
    FFDL_ASSIGN_OR_RETURN(const auto piece, file.at(at, base::kScanBytes));
    for (size_t from = 0; from < piece.size();) {
      const auto* rest = piece.data() + from;
      const auto* end = static_cast<const std::byte*>(memchr(rest, '\n', piece.size() - from));
      if (end == nullptr) break;
      from = static_cast<size_t>(end - piece.data()) + 1;
      lines.push_back({begin, at + from - 1 - begin});
      begin = at + from;
    }
    at += piece.size();
  }
  SampleTable table;
  if (begin < file.size()) {
    if (file.is_cut()) {  // an incomplete line
      table.skipped.bytes = file.size() - begin;
    } else {
      lines.push_back({begin, file.size() - begin});
    }
  }
  if (as_json) table.check = check_json;
  data::add_listed(table, std::move(lines));
  return table;
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_lines(const std::vector<std::string>& paths,
                                               const FileOptions& options) {
  return data::open_maybe_packed(
      paths, options, [](FileScanner& file, bool) { return find_lines(file, /*as_json=*/false); });
}

Result<std::unique_ptr<DataSource>> open_json_lines(const std::vector<std::string>& paths,
                                                    const FileOptions& options) {
  return data::open_maybe_packed(
      paths, options, [](FileScanner& file, bool) { return find_lines(file, /*as_json=*/true); });
}

}  // namespace ffdl
