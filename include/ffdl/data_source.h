#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/sample_batch.h"
#include "ffdl/status.h"

namespace ffdl {

// What the samples of a source are.
struct SampleFormat {
  std::string dtype = "|u1";      // of their elements, as NumPy writes it: "<f4"
  std::vector<uint64_t> shape{};  // of one sample, if all have the same size
  uint64_t bytes = 0;             // of one sample; about so many where they differ
  bool is_fixed = false;          // all samples have the same size
};

// What a source has left out, none of it in silence.
struct SkippedData {
  uint64_t samples = 0;  // asked for and not given, each time that they were
  uint64_t bytes = 0;    // of files, that belong to no sample
  std::string first{};   // the first reason
};

// A data set of numbered samples. Make your own for a format that has no open_... below.
// Threads: all methods from any, several at a time; a DataPipeline reads from threads of its own.
class FFDL_API DataSource {
 public:
  virtual ~DataSource() = default;

  virtual uint64_t samples() const = 0;  // the same for life
  virtual SampleFormat format() const = 0;
  // Adds the samples of these numbers to a batch, in this order: one add() or skip() for each.
  // After an error the batch holds nothing of use.
  // Blocks: for the disk.
  virtual Status read(std::span<const uint64_t> indices, SampleBatch& batch) const = 0;
  // The same into memory of the caller: clears the batch, and the samples lie one behind the other
  // from the front of `to`, of which this gives as much as they fill. A source that reads to a
  // place reads there; what it has elsewhere is copied there once (docs/data.md says which does
  // what). After an error `to` holds nothing of use.
  // Errors: those of read(), and kInvalidArgument (there is no room for them).
  Result<std::span<const std::byte>> read_into(std::span<const uint64_t> indices,
                                               std::span<std::byte> to, SampleBatch& batch) const;
  virtual SkippedData skipped() const { return {}; }
};

// How files are read. In both ways a file that was cut short is an error, found before or while its
// bytes are read, and one that has grown is read as far as it was when it was opened.
enum class FileAccess : uint32_t {
  // Into the memory of the batch: what was read stays, whatever becomes of the file.
  kCopied,
  // Not at all: samples lie in the mapped file. Nobody may cut the file short while samples of it
  // are in use: the kernel ends a process that touches what is gone (SIGBUS).
  kMapped,
};

// What a sample that fails its check is: an error that names file and offset, or left out and
// counted.
enum class OnCorrupt : uint32_t { kFail, kSkip };

struct FileOptions {
  FileAccess access = FileAccess::kCopied;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  // Compressed files are unpacked as a whole, one that holds more than this is refused, and those
  // used last stay in memory up to so many bytes; their samples are copied in both ways of access.
  uint64_t unpacked_bytes = uint64_t{1} << 30;
  // Of shards: those that their index tells are compared when a shard is first read.
  bool check_hashes = true;
};

struct RecordOptions {
  uint64_t record_bytes = 0;
  uint64_t header_bytes = 0;  // at the beginning of each file, before its records
};

// Sample i of a file is its tokens [i * stride, i * stride + window + 1): the input is the first
// `window` of them, the target the last. No window has tokens of two files; what is left over at
// the end of a file is counted as skipped bytes.
struct TokenOptions {
  uint64_t window = 0;
  uint64_t stride = 0;       // 0: window, so that each token is a target once
  uint64_t token_bytes = 2;  // or 4
  uint64_t header_bytes = 0;
};

struct LineOptions {
  bool json = false;  // each line must be JSON; one that is not is corrupt
};

// The samples of one or more files of a format, in this order, as one data set.
// Errors: kInvalidArgument, kNotFound, kCorrupt (what is in a file is not of its format; with kSkip
//         what follows in that file is left out and counted), kUnavailable, kExhausted (too many
//         files, or one that holds more than unpacked_bytes), kUnimplemented (a compressed file
//         and a build without FFDL_WITH_ARCHIVE).
// Blocks: for the disk: lines, TFRecord and tar read what is needed to know where samples lie.
//         They may be compressed (gzip, bzip2, xz, zstd, lz4): these are unpacked once to open them
//         and each time that one of their samples is asked for and they are not in memory any more.
using OpenedSource = Result<std::unique_ptr<DataSource>>;
using Paths = std::vector<std::string>;
FFDL_API OpenedSource open_records(const Paths& paths, const RecordOptions& records,
                                   const FileOptions& options = {});
// NumPy's .npy in C order; a sample is a row: array[i]. With kSkip one of another size than its
// header tells has the rows that are whole.
FFDL_API OpenedSource open_npy(const Paths& paths, const FileOptions& options = {});
FFDL_API OpenedSource open_tokens(const Paths& paths, const TokenOptions& tokens,
                                  const FileOptions& options = {});
// A sample is a line without its '\n'.
FFDL_API OpenedSource open_lines(const Paths& paths, const LineOptions& lines = {},
                                 const FileOptions& options = {});
// A sample is the data of a record. Both checksums are verified.
FFDL_API OpenedSource open_tf_records(const Paths& paths, const FileOptions& options = {});
// WebDataset: a sample is the stretch of the archive that holds all files of one key, the path up
// to the first dot of its last part; tar_fields() takes it apart.
FFDL_API OpenedSource open_tar_shards(const Paths& paths, const FileOptions& options = {});
// Sources of one format, one after the other.
FFDL_API OpenedSource join_sources(std::vector<std::unique_ptr<DataSource>> sources);

// Sources of one format, of which any stretch of samples has as many of each as its weight says (to
// a 1000th of all). It ends when each source has been used up once: those with larger weights for
// their size are gone through again and again until then, and nothing is left out.
// Errors: kInvalidArgument.
FFDL_API OpenedSource mix_sources(std::vector<std::unique_ptr<DataSource>> sources,
                                  const std::vector<double>& weights);
// Parts of a source by weight (to a 1000th of all), such as {0.9, 0.1} to train and to evaluate
// with: each sample is in exactly one part, which one follows from `seed` and the number of
// samples. What `whole` has skipped is told by each of them.
// Owns: nothing; borrows `whole`, which must outlive the parts.
// Errors: kInvalidArgument, also for a part without samples.
FFDL_API Result<std::vector<std::unique_ptr<DataSource>>> split_source(
    const DataSource& whole, const std::vector<double>& weights, uint64_t seed = 0);

// One file of a sample of open_tar_shards(): "a/0017.left.png" has key "a/0017", name "left.png".
struct TarField {
  std::string key{};
  std::string name{};
  std::span<const std::byte> bytes{};
};
// Errors: kCorrupt.
FFDL_API Result<std::vector<TarField>> tar_fields(std::span<const std::byte> sample);

}  // namespace ffdl
