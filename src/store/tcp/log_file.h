#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::store {

// A file that grows by records, each with a checksum that also covers its place.
// A record is in the file when append() returns, so no death of a process loses it. It is not yet
// on the disk: the death of the machine may lose the last ones. Only replace() waits for the disk.
// Threads: one at a time.
class LogFile {
 public:
  using OnRecord = std::function<Status(std::string_view record)>;

  // Passes every record of `bytes` to `on_record`, and returns how many bytes they take. The rest
  // is a torn record, or the zeros that a crash of the machine leaves.
  // Errors: kCorrupt (a record in the middle is not what was written), and those of `on_record`.
  static Result<size_t> read(std::string_view bytes, const OnRecord& on_record);

  // Reads the file, and cuts off a torn end; makes the file if it is absent.
  // Errors: as read(); kUnavailable.
  static Result<LogFile> open(const std::string& path, const OnRecord& on_record);

  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  // Errors: kExhausted (the disk is full), kUnavailable. Nothing has happened then.
  Status append(std::string_view record);
  // Replaces all records by one. Errors: kExhausted, kUnavailable. Later records are appended in
  // either case: to the old file, unless the new one has taken its place.
  Status replace(std::string_view record);

  size_t bytes() const { return bytes_; }
  // Returns how many bytes open() cut off.
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
