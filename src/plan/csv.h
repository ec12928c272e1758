#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "ffdl/status.h"

namespace ffdl::plan {

// The number that a text is, spaces around it aside; nothing if it is more or less than one number.
std::optional<double> parse_number(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text);

// A file of lines of cells, separated by commas, the first line naming the columns. No quoting:
// none of the published data sets uses it. Every complaint names the file, the line and the column.
// Threads: a value.   Owns: the text.   Blocks: reads the file.   Errors: kNotFound,
// kInvalidArgument.
class CsvFile {
 public:
  // Reads a file whose lines all have as many cells as its header.
  static Result<CsvFile> read(const std::filesystem::path& path);

  size_t rows() const { return rows_.size(); }
  size_t columns() const { return header_.size(); }
  const std::string& name(size_t column) const { return header_[column]; }

  // Where a column of this name is. Errors: kInvalidArgument (there is none; says which there are).
  Result<size_t> column(std::string_view name) const;

  size_t line(size_t row) const { return rows_[row].line; }  // of the file, counted from 1
  const std::string& text(size_t row, size_t column) const { return rows_[row].cells[column]; }
  Result<double> number(size_t row, size_t column) const;  // finite
  Result<int64_t> integer(size_t row, size_t column, int64_t least) const;

  // An error at a cell, or at a column's name in the header.
  template <class... Args>
  Status error_at(size_t row, size_t column, fmt::format_string<Args...> what,
                  Args&&... args) const {
    return error(rows_[row].line, column, fmt::format(what, std::forward<Args>(args)...));
  }
  template <class... Args>
  Status error_in_header(size_t column, fmt::format_string<Args...> what, Args&&... args) const {
    return error(1, column, fmt::format(what, std::forward<Args>(args)...));
  }

 private:
  struct Row {
    size_t line;
    std::vector<std::string> cells;
  };

  Status error(size_t line, size_t column, const std::string& what) const;

  std::string path_;
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

}  // namespace ffdl::plan
