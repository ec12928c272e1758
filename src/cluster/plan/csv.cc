#include "cluster/plan/csv.h"

#include <charconv>
#include <cmath>
#include <fstream>

namespace ffdl::cluster {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.emplace_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

template <class T>
std::optional<T> parse(std::string_view text) {
  text = trimmed(text);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) { return parse<double>(text); }
std::optional<int64_t> parse_integer(std::string_view text) { return parse<int64_t>(text); }

Result<CsvFile> CsvFile::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored)) {
    return base::make_error(StatusCode::kNotFound, "read '{}': no such file; check the path",
                            path.string());
  }
  CsvFile csv;
  csv.path_ = path.string();
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (trimmed(line).empty()) continue;
    if (csv.header_.empty() && number > 1) break;
    std::vector<std::string> cells = split(line);
    if (number == 1) {
      csv.header_ = std::move(cells);
      continue;
    }
    if (cells.size() != csv.header_.size()) {
      return base::invalid_argument(
          "read '{}': line {}, column {}: {} cells where the header has {}; "
          "separate them by commas",
          csv.path_, number, std::min(cells.size(), csv.header_.size()) + 1, cells.size(),
          csv.header_.size());
    }
    csv.rows_.push_back({number, std::move(cells)});
  }
  if (csv.header_.empty()) {
    return base::invalid_argument(
        "read '{}': line 1, column 1: no header; the first line names the columns", csv.path_);
  }
  return csv;
}

Result<size_t> CsvFile::column(std::string_view name) const {
  for (size_t column = 0; column < header_.size(); ++column) {
    if (header_[column] == name) return column;
  }
  std::string present = header_[0];
  for (size_t column = 1; column < header_.size(); ++column) present += ", " + header_[column];
  return base::invalid_argument("read '{}': line 1, column {}: no column '{}' among '{}'; add it",
                                path_, header_.size() + 1, name, present);
}

Result<double> CsvFile::number(size_t row, size_t column, double most) const {
  const auto value = parse_number(text(row, column));
  if (!value || !std::isfinite(*value)) {
    return error_at(row, column, "'{}' is not a number; write a finite one", text(row, column));
  }
  if (std::abs(*value) > most) {
    return error_at(row, column, "'{}' is beyond {:g}; write a smaller number", text(row, column),
                    most);
  }
  return *value;
}

Result<int64_t> CsvFile::integer(size_t row, size_t column, int64_t least, int64_t most) const {
  const auto value = parse_integer(text(row, column));
  if (!value || *value < least) {
    return error_at(row, column, "'{}' is not a whole number from {} on; write one",
                    text(row, column), least);
  }
  if (*value > most) {
    return error_at(row, column, "'{}' is more than {}; write a smaller number", text(row, column),
                    most);
  }
  return *value;
}

Status CsvFile::error(size_t line, size_t column, const std::string& what) const {
  return base::invalid_argument("read '{}': line {}, column {} ({}): {}", path_, line, column + 1,
                                header_[column], what);
}

}  // namespace ffdl::cluster
