#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::store {

// A file that grows by records, each with a checksum that covers its place too.
// A record is in the file when append() returns, so that no death of a process loses it. It is not
// yet on the disk: the death of the machine may lose the last ones, and replace() alone waits for
// the disk.
// Threads: one at a time.
class LogFile {
 public:
  using OnRecord = std::function<Status(std::string_view record)>;

  // Gives every record of `bytes`, and returns how many bytes they take; what is behind them is a
  // torn record, or the zeros that a crash of the machine leaves.
  // Errors: kCorrupt (a record in the middle is not what was written), and what `on_record` gives.
  static Result<size_t> read(std::string_view bytes, const OnRecord& on_record);

  // Reads it, and cuts a torn end off; makes it if it is absent.
  // Errors: as read(); kUnavailable.
  static Result<LogFile> open(const std::string& path, const OnRecord& on_record);

  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  // Errors: kExhausted (the disk is full), kUnavailable. Nothing has happened then.
  Status append(std::string_view record);
  // Puts one record in the place of all. Errors: kUnavailable; nothing has happened then.
  Status replace(std::string_view record);

  size_t bytes() const { return bytes_; }
  // Bytes that the last open() cut off.
  size_t cut() const { return cut_; }

 private:
  LogFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  size_t bytes_ = 0;
  size_t cut_ = 0;
  bool torn_ = false;  // half a record is at its end and could not be cut off
};

}  // namespace ffdl::store
