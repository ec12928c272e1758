#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ffdl/data/sample_batch.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl {

// The format of a source's samples.
struct SampleFormat {
  std::string dtype = "|u1";      // of the elements, in NumPy's notation: "<f4"
  std::vector<uint64_t> shape{};  // of one sample, if all have the same size
  uint64_t bytes = 0;             // of one sample; an approximate size if they differ
  bool is_fixed = false;          // all samples have the same size
};

// The data that a source has left out. A source counts everything that it leaves out.
struct SkippedData {
  uint64_t samples = 0;  // requested but not returned; counted at each request
  uint64_t bytes = 0;    // bytes of files that belong to no sample
  std::string first{};   // the first reason
};

// A data set of numbered samples. Implement this class for a format that has no open_... function.
// Threads: all methods from any, several at a time; a DataPipeline reads on its own threads.
class FFDL_API DataSource {
 public:
  virtual ~DataSource() = default;

  virtual uint64_t samples() const = 0;  // constant for life
  virtual SampleFormat format() const = 0;
  // Adds the samples with these numbers to a batch, in this order: one add() or skip() for each.
  // After an error the contents of the batch are undefined.
  // Blocks: for the disk.
  virtual Status read(std::span<const uint64_t> indices, SampleBatch& batch) const = 0;
  // Reads samples into memory of the caller. Clears the batch, and stores the samples contiguously
  // from the front of `to`. Returns the part of `to` that the samples fill. A source that can read
  // into place does so; otherwise it copies the samples once (docs/guide/data.md has a list). After
  // an error the contents of `to` are undefined.
  // Errors: those of read(), and kInvalidArgument (`to` is too small).
  Result<std::span<const std::byte>> read_into(std::span<const uint64_t> indices,
                                               std::span<std::byte> to, SampleBatch& batch) const;
  virtual SkippedData skipped() const { return {}; }
};

struct FileOptions {
  // True: samples are used in the mapped file, without a copy. The file must not be truncated
  // meanwhile: the kernel ends a process that touches removed pages (SIGBUS). False: samples are
  // copied into the memory of the batch. They stay valid whatever happens to the file.
  bool mapped = false;
  // True: a sample that fails its check is left out and counted. False: such a sample is an error
  // that names file and offset.
  bool skip_corrupt = false;
  // The maximum total size of unpacked files in memory. A compressed file is unpacked as a whole,
  // and refused if its unpacked size exceeds this limit. The most recently used files stay. Samples
  // of compressed files are always copied.
  uint64_t unpacked_bytes = uint64_t{1} << 30;
  // True: when a shard is first read, its hashes are compared with those in the index.
  bool check_hashes = true;
};

struct RecordOptions {
  uint64_t record_bytes = 0;
  uint64_t header_bytes = 0;  // at the start of each file, before its records
};

// Sample i of a file is its tokens [i * stride, i * stride + window + 1). The first `window` tokens
// of a sample are the input, the last `window` the target. No sample spans two files. Tokens at the
// end of a file that fill no window are counted as skipped bytes.
struct TokenOptions {
  uint64_t window = 0;
  uint64_t stride = 0;       // 0: `window`, so that each token is a target once
  uint64_t token_bytes = 2;  // or 4
  uint64_t header_bytes = 0;
};

// Opens one or more files of a format, in this order, as one data set.
// If a file was truncated since it was opened, reading it is an error, detected before or while its
// bytes are read. If a file has grown, only its size when opened is read.
// Errors: kInvalidArgument, kNotFound, kCorrupt (the contents of a file do not have its format;
//         with skip_corrupt the rest of that file is left out and counted), kUnavailable,
//         kExhausted (too many files, or a file that unpacks to more than unpacked_bytes),
//         kUnimplemented (a compressed file, in a build without FFDL_WITH_ARCHIVE).
// Blocks: for the disk. Lines, TFRecord and tar files are read as far as needed to find the
//         samples. Such files may be compressed (gzip, bzip2, xz, zstd, lz4). A compressed file is
//         unpacked once when it is opened. It is unpacked again when a sample is requested and the
//         file is no longer in memory.
FFDL_API Result<std::unique_ptr<DataSource>> open_records(const std::vector<std::string>& paths,
                                                          const RecordOptions& records,
                                                          const FileOptions& options = {});
// Opens NumPy .npy files in C order; a sample is a row: array[i]. With skip_corrupt, if the size of
// a file differs from its header, its complete rows are used.
FFDL_API Result<std::unique_ptr<DataSource>> open_npy(const std::vector<std::string>& paths,
                                                      const FileOptions& options = {});
FFDL_API Result<std::unique_ptr<DataSource>> open_tokens(const std::vector<std::string>& paths,
                                                         const TokenOptions& tokens,
                                                         const FileOptions& options = {});
// Opens text files. A sample is a line without its '\n'. With open_json_lines() each line must be
// JSON; other lines are corrupt.
FFDL_API Result<std::unique_ptr<DataSource>> open_lines(const std::vector<std::string>& paths,
                                                        const FileOptions& options = {});
FFDL_API Result<std::unique_ptr<DataSource>> open_json_lines(const std::vector<std::string>& paths,
                                                             const FileOptions& options = {});
// Opens TFRecord files. A sample is the data of a record. Both checksums are verified.
FFDL_API Result<std::unique_ptr<DataSource>> open_tf_records(const std::vector<std::string>& paths,
                                                             const FileOptions& options = {});
// Opens WebDataset archives. A sample is the part of the archive that contains consecutive files of
// one key: the path up to the first dot of its last component. tar_fields() splits a sample.
FFDL_API Result<std::unique_ptr<DataSource>> open_tar_shards(const std::vector<std::string>& paths,
                                                             const FileOptions& options = {});
// Concatenates sources of one format.
FFDL_API Result<std::unique_ptr<DataSource>> join_sources(
    std::vector<std::unique_ptr<DataSource>> sources);

// Mixes sources of one format. In any part of the mix, the number of samples of each source follows
// its weight (to a 1000th of all). The mix ends when each source has been used up at least once.
// Sources that are used up earlier are repeated, so no sample is left out.
// Errors: kInvalidArgument.
FFDL_API Result<std::unique_ptr<DataSource>> mix_sources(
    std::vector<std::unique_ptr<DataSource>> sources, const std::vector<double>& weights);
// Splits a source into parts by weight (to a 1000th of all), such as {0.9, 0.1} for training and
// evaluation. Each sample is in exactly one part, which depends on `seed` and the number of
// samples. Each part reports the skipped data of `whole`.
// Owns: nothing; borrows `whole`, which must outlive the parts.
// Errors: kInvalidArgument, also for a part without samples.
FFDL_API Result<std::vector<std::unique_ptr<DataSource>>> split_source(
    const DataSource& whole, const std::vector<double>& weights, uint64_t seed = 0);

// One file in a sample of open_tar_shards(): "a/0017.left.png" has key "a/0017", name "left.png".
struct TarField {
  std::string key{};
  std::string name{};
  std::span<const std::byte> bytes{};
};
// Returns the files of a sample. Errors: kCorrupt.
FFDL_API Result<std::vector<TarField>> tar_fields(std::span<const std::byte> sample);

// Folders of shards with an index.json, as MosaicML Streaming (MDS) and LitData write them. The
// index has the number of samples of each shard. So a compressed shard is unpacked only when one of
// its samples is requested.

// One column of the samples in such a folder.
struct ShardColumn {
  std::string name{};      // in LitData the key of a flat dictionary, or the index: "0", "1", ...
  std::string encoding{};  // of the column's bytes, in the format's notation: "int", "jpeg"
  uint64_t bytes = 0;      // of the column in each sample; 0: stored in the sample
};

// Opens one or more MDS folders, in this order; shard_fields() splits a sample. Shards may be
// compressed with zstd, gzip or bzip2. If a shard has both forms, the uncompressed one is read.
// Errors: those of open_tar_shards(); kInvalidArgument (columns of two shards differ),
//         kUnimplemented (encrypted, or compressed in another way). Also in read(): kCorrupt if a
//         shard does not match the index: its size, samples and, with check_hashes, its hashes.
//         With skip_corrupt all samples of that shard are then left out.
// Blocks: for the disk. A shard with hashes is read completely before its first sample is returned.
FFDL_API Result<std::unique_ptr<DataSource>> open_mds(const std::vector<std::string>& folders,
                                                      const FileOptions& options = {});
// Opens LitData folders with items of any structure (PyTreeLoader), compressed by whole chunks or
// not at all. For other contents of newer LitData versions (tokens, Parquet, rows as Arrow, frames
// within chunks) the error is kUnimplemented.
FFDL_API Result<std::unique_ptr<DataSource>> open_litdata(const std::vector<std::string>& folders,
                                                          const FileOptions& options = {});

// Returns the columns of an MDS or LitData folder, in the order of shard_fields().
// Errors: those of opening the folder.
FFDL_API Result<std::vector<ShardColumn>> shard_columns(const std::string& folder);

// Returns the bytes of each column of a sample, as parts of the sample.
// Errors: kCorrupt.
FFDL_API Result<std::vector<std::span<const std::byte>>> shard_fields(
    std::span<const std::byte> sample, std::span<const ShardColumn> columns);

}  // namespace ffdl
