// A record has its length, the checksum of that, its data and the checksum of these, little-endian.
#include <cstring>

#include "base/limits.h"
#include "data/formats/crc32c.h"
#include "data/formats/file_source.h"
#include "data/formats/packed_source.h"

namespace ffdl {
namespace {

using data::Extent;
using data::FileScanner;
using data::SampleTable;
using RecordBytes = std::span<const std::byte>;

constexpr size_t kHeaderBytes = 12;
constexpr size_t kTrailerBytes = 4;

template <class Number>
Number number_at(RecordBytes bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

bool has_checksum(RecordBytes bytes, uint32_t masked) {
  return data::mask_crc(data::crc32c(bytes)) == masked;
}

std::string_view check_record(RecordBytes stored) {
  const size_t size = stored.size() - kTrailerBytes;
  return has_checksum(stored.first(size), number_at<uint32_t>(stored, size))
             ? ""
             : "the checksum of the data is wrong";
}

Result<SampleTable> find_tf_records(FileScanner& file, bool skip_corrupt) {
  SampleTable table;
  table.trailer_bytes = kTrailerBytes;
  table.check = check_record;
  std::vector<Extent> records;
  for (uint64_t at = 0; at < file.size();) {
    FFDL_ASSIGN_OR_RETURN(const RecordBytes header, file.at(at, kHeaderBytes));
    std::string_view problem;
    uint64_t bytes = 0;
    if (header.size() < kHeaderBytes) {
      problem = "the file ends within a record";
    } else if (!has_checksum(header.first(8), number_at<uint32_t>(header, 8))) {
      problem = "the checksum of the length of a record is wrong";
    } else {
      bytes = number_at<uint64_t>(header, 0);
      const uint64_t rest = file.size() - at - kHeaderBytes;
      if (rest < kTrailerBytes || bytes > rest - kTrailerBytes) {
        problem = "the file ends within a record";
      }
    }
    if (!problem.empty()) {
      FFDL_RETURN_IF_ERROR(data::give_up_rest(file, at, problem, skip_corrupt, table));
      break;
    }
    records.push_back({at + kHeaderBytes, bytes + kTrailerBytes});
    at += kHeaderBytes + bytes + kTrailerBytes;
  }
  data::add_listed(table, std::move(records));
  return table;
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_tf_records(const std::vector<std::string>& paths,
                                                    const FileOptions& options) {
  // The length of a record may look like the first bytes of a compressed file.
  const auto is_plain = [](RecordBytes begin) {
    return begin.size() >= kHeaderBytes &&
           has_checksum(begin.first(8), number_at<uint32_t>(begin, 8));
  };
  return data::open_maybe_packed(paths, options, find_tf_records, is_plain);
}

}  // namespace ffdl
