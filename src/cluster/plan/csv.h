#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "cluster/plan/limits.h"
#include "ffdl/status.h"

namespace ffdl::cluster {

// Parses a text that is one number, with or without spaces around it; nothing otherwise.
std::optional<double> parse_number(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text);

// Reads a file of lines of cells, separated by commas; the first line names the columns. It
// supports no quoting: none of the published data sets uses it. Every error names the file, the
// line and the column.
// Threads: a value.   Owns: the text.   Blocks: reads the file.   Errors: kNotFound,
// kInvalidArgument.
class CsvFile {
 public:
  // Reads a file whose lines all have as many cells as its header.
  static Result<CsvFile> read(const std::filesystem::path& path);

  size_t rows() const { return rows_.size(); }
  size_t columns() const { return header_.size(); }
  const std::string& name(size_t column) const { return header_[column]; }

  // Returns the position of the column of this name. Errors: kInvalidArgument (there is none; names
  // those that exist).
  Result<size_t> column(std::string_view name) const;

  size_t line(size_t row) const { return rows_[row].line; }  // line in the file, from 1
  const std::string& text(size_t row, size_t column) const { return rows_[row].cells[column]; }
  // Returns a number whose absolute value is at most `most`.
  Result<double> number(size_t row, size_t column, double most = kNumberMax) const;
  Result<int64_t> integer(size_t row, size_t column, int64_t least, int64_t most = INT64_MAX) const;

  // Returns an error at a cell, or at a column's name in the header.
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

}  // namespace ffdl::cluster
