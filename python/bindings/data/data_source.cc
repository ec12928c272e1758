#include "ffdl/data/data_source.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/base/arrays.h"
#include "bindings/base/buffers.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// Returns the shape of an array of `samples` samples of one size.
std::vector<py::ssize_t> shape_of(size_t samples, const SampleFormat& format) {
  std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(samples)};
  shape.insert(shape.end(), format.shape.begin(), format.shape.end());
  return shape;
}

// Returns the samples as bytes, with None for a skipped one. So places match those of the requested
// numbers.
py::list as_bytes(const SampleBatch& batch) {
  py::list samples;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch.is_skipped(i)) {
      samples.append(py::none());
      continue;
    }
    samples.append(py::bytes(reinterpret_cast<const char*>(batch[i].data()), batch[i].size()));
  }
  return samples;
}

// Returns the samples as views of the caller's memory, with None for a skipped one.
py::list as_views(const SampleBatch& batch, const py::object& owner) {
  py::list samples;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch.is_skipped(i)) {
      samples.append(py::none());
      continue;
    }
    samples.append(py::array(py::dtype::of<uint8_t>(), static_cast<py::ssize_t>(batch[i].size()),
                             batch[i].data(), owner));
  }
  return samples;
}

void read_into(const DataSource& source, std::span<const uint64_t> indices, std::span<std::byte> to,
               SampleBatch& batch) {
  check(without_lock([&] { return source.read_into(indices, to, batch).status(); }));
}

// Reads into memory that NumPy owns; samples of different sizes go into the memory of the batch.
py::object read_numbers(const DataSource& source, std::span<const uint64_t> indices) {
  const SampleFormat format = source.format();
  SampleBatch batch;
  if (!format.is_fixed) {
    check(without_lock([&] { return source.read(indices, batch); }));
    return as_bytes(batch);
  }
  py::array array(py::dtype(format.dtype), shape_of(indices.size(), format));
  const std::span to(static_cast<std::byte*>(array.mutable_data()),
                     static_cast<size_t>(array.nbytes()));
  read_into(source, indices, to, batch);
  if (batch.skipped() == 0) return array;
  return as_bytes(batch);
}

py::object read_numbers_into(const DataSource& source, std::span<const uint64_t> indices,
                             const py::object& out) {
  const SampleFormat format = source.format();
  const BytesToWrite memory = bytes_to_write(out, "out", format.dtype);
  SampleBatch batch;
  read_into(source, indices, memory.bytes, batch);
  if (!format.is_fixed || batch.skipped() > 0) return as_views(batch, memory.owner);
  return py::array(py::dtype(format.dtype), shape_of(indices.size(), format), memory.bytes.data(),
                   memory.owner);
}

// Reads the samples. Uses the numbers of a ledger in place: as Python objects they would take
// longer than the samples.
py::object read(const DataSource& source, const py::object& indices, const py::object& out) {
  const Numbers numbers(indices);
  return out.is_none() ? read_numbers(source, numbers.span())
                       : read_numbers_into(source, numbers.span(), out);
}

using Files = std::vector<std::filesystem::path>;  // str, pathlib.Path and similar

std::vector<std::string> strings_of(const Files& files) {
  std::vector<std::string> paths;
  paths.reserve(files.size());
  for (const std::filesystem::path& file : files) paths.push_back(file.string());
  return paths;
}

template <class Open>
std::shared_ptr<DataSource> open(Open&& call) {
  return take(without_lock(call));
}

const uint64_t kUnpackedBytes = FileOptions().unpacked_bytes;

std::string with_packed(const char* doc) {
  return std::string(doc) +
         "\nFiles that are compressed (gzip, bzip2, xz, zstd, lz4) are unpacked as a whole, and\n"
         "those used last stay in memory up to unpacked_bytes. skip_corrupt: a sample that fails "
         "its\n"
         "check is left out and counted (DataSource.skipped); otherwise it raises Corrupt.";
}

void bind_formats(py::module_& module) {
  constexpr const char* kErrors =
      "\nRaises NotFound, Corrupt (what is in a file is not of its format), InvalidArgument.";
  const auto define = [&](const char* name, auto function, std::string doc, const auto&... args) {
    doc += kErrors;
    module.def(name, function, py::arg("paths"), args..., doc.c_str());
  };
  define(
      "open_records",
      [](const Files& paths, uint64_t record_bytes, uint64_t header_bytes) {
        return open([&] { return open_records(strings_of(paths), {record_bytes, header_bytes}); });
      },
      "Opens files of samples of `record_bytes` bytes each, after a header:\n"
      "uint8[record_bytes].",
      py::kw_only(), py::arg("record_bytes"), py::arg("header_bytes") = 0);
  define(
      "open_npy",
      [](const Files& paths, bool skip_corrupt) {
        return open([&] { return open_npy(strings_of(paths), {.skip_corrupt = skip_corrupt}); });
      },
      "Opens NumPy's .npy in C order; a sample is a row: array[i]. skip_corrupt: a file of\n"
      "another size than in its header raises Corrupt. Or its complete rows are read, and the\n"
      "rest is counted (DataSource.skipped).",
      py::kw_only(), py::arg("skip_corrupt") = false);
  define(
      "open_tokens",
      [](const Files& paths, uint64_t window, uint64_t stride, uint64_t token_bytes,
         uint64_t header_bytes) {
        return open([&] {
          return open_tokens(strings_of(paths), {window, stride, token_bytes, header_bytes});
        });
      },
      "Sample i is the tokens [i * stride, i * stride + window + 1): the input is the first\n"
      "`window` of them, the target the last. stride: 0 for window.",
      py::kw_only(), py::arg("window"), py::arg("stride") = 0, py::arg("token_bytes") = 2,
      py::arg("header_bytes") = 0);
  for (const auto& [name, function, doc] :
       {std::tuple("open_lines", &open_lines, "A sample is a line without its end, as bytes."),
        std::tuple("open_json_lines", &open_json_lines,
                   "A sample is a line without its end, as bytes. Each must be JSON.")}) {
    define(
        name,
        [function](const Files& paths, bool skip_corrupt, uint64_t unpacked_bytes) {
          const FileOptions options = {.skip_corrupt = skip_corrupt,
                                       .unpacked_bytes = unpacked_bytes};
          return open([&] { return function(strings_of(paths), options); });
        },
        with_packed(doc), py::kw_only(), py::arg("skip_corrupt") = false,
        py::arg("unpacked_bytes") = kUnpackedBytes);
  }
  define(
      "open_tf_records",
      [](const Files& paths, bool skip_corrupt, uint64_t unpacked_bytes) {
        const FileOptions options = {.skip_corrupt = skip_corrupt,
                                     .unpacked_bytes = unpacked_bytes};
        return open([&] { return open_tf_records(strings_of(paths), options); });
      },
      with_packed("A sample is the data of a record, as bytes. Both checksums are verified."),
      py::kw_only(), py::arg("skip_corrupt") = false, py::arg("unpacked_bytes") = kUnpackedBytes);
  define(
      "open_tar_shards",
      [](const Files& paths, bool skip_corrupt, uint64_t unpacked_bytes) {
        const FileOptions options = {.skip_corrupt = skip_corrupt,
                                     .unpacked_bytes = unpacked_bytes};
        return open([&] { return open_tar_shards(strings_of(paths), options); });
      },
      with_packed("WebDataset: a sample is the part of the archive with all files of one\n"
                  "key, as bytes; tar_fields() splits it."),
      py::kw_only(), py::arg("skip_corrupt") = false, py::arg("unpacked_bytes") = kUnpackedBytes);
}

void bind_shard_folders(py::module_& module) {
  Record<ShardColumn>(
      module, "ShardColumn",
      "A column, by its name, of the samples of a folder of shards. encoding: of its bytes,\n"
      "in the words of the format. bytes: of each sample; 0: stated in the sample.")
      .field("name", &ShardColumn::name)
      .field("encoding", &ShardColumn::encoding)
      .field("bytes", &ShardColumn::bytes);
  const auto define = [&](const char* name, auto function, const char* what) {
    module.def(
        name,
        [function](const Files& folders, bool check_hashes, bool skip_corrupt,
                   uint64_t unpacked_bytes) {
          const FileOptions options = {.skip_corrupt = skip_corrupt,
                                       .unpacked_bytes = unpacked_bytes,
                                       .check_hashes = check_hashes};
          return open([&] { return function(strings_of(folders), options); });
        },
        py::arg("folders"), py::kw_only(), py::arg("check_hashes") = FileOptions().check_hashes,
        py::arg("skip_corrupt") = false, py::arg("unpacked_bytes") = kUnpackedBytes,
        (std::string("Folders of shards with an index.json, as ") + what +
         " writes them;\n"
         "shard_fields() takes a sample apart. Compressed shards (zstd, gz, bz2) are\n"
         "unpacked when one of their samples is asked for, up to unpacked_bytes of them\n"
         "stay in memory. check_hashes: those of the index are compared when a shard is\n"
         "first read. skip_corrupt: a shard that is not what the index says raises Corrupt, or\n"
         "its samples are left out and counted (DataSource.skipped). Raises NotFound,\n"
         "Corrupt, Unimplemented, InvalidArgument.")
            .c_str());
  };
  define("open_mds", open_mds, "MosaicML Streaming");
  define("open_litdata", open_litdata, "LitData");
  module.def(
      "shard_columns",
      [](const std::filesystem::path& folder) { return take(shard_columns(folder.string())); },
      py::arg("folder"),
      "The description of a folder that shard_fields() needs. Raises\n"
      "NotFound, Corrupt.");
  module.def(
      "shard_fields",
      [](const py::bytes& sample, const std::vector<ShardColumn>& columns) {
        const auto bytes = static_cast<std::string_view>(sample);
        const auto fields = take(shard_fields(std::as_bytes(std::span(bytes)), columns));
        py::dict found;
        for (size_t i = 0; i < columns.size(); ++i) {
          found[py::str(columns[i].name)] =
              py::bytes(reinterpret_cast<const char*>(fields[i].data()), fields[i].size());
        }
        return found;
      },
      py::arg("sample"), py::arg("columns"),
      "Returns the bytes of each column of a sample, by its name. Raises Corrupt.");
}

}  // namespace

void bind_data_source(py::module_& module) {
  Record<SampleFormat>(
      module, "SampleFormat",
      "The format of a source's samples. dtype: as NumPy writes it. shape: of one, if all\n"
      "have the same size, which is_fixed states. bytes: of one; about that many if they\n"
      "differ.")
      .field("dtype", &SampleFormat::dtype)
      .field("shape", &SampleFormat::shape)
      .field("bytes", &SampleFormat::bytes)
      .field("is_fixed", &SampleFormat::is_fixed);
  Record<SkippedData>(
      module, "SkippedData",
      "The samples that a source has left out. samples: requested and not returned, counted\n"
      "each time. bytes: of files, that belong to no sample. first: the reason of the first.")
      .field("samples", &SkippedData::samples)
      .field("bytes", &SkippedData::bytes)
      .field("first", &SkippedData::first);
  py::class_<DataSource, std::shared_ptr<DataSource>>(
      module, "DataSource",
      R"(Numbered samples in files, for ElasticLoader or for direct use.

    data = ffdl.open_tokens(["train.bin"], window=256)
    loader = ffdl.data.ElasticLoader(data, batch_samples=64)

format: a SampleFormat. skipped: the samples that were left out, SkippedData. Any thread, several
at a time; also in processes that are forked. Use open_... to make one.)")
      .def("__len__", [](const DataSource& source) { return source.samples(); })
      .def_property_readonly("samples", &DataSource::samples)
      .def_property_readonly("format", &DataSource::format)
      .def_property_readonly("skipped", &DataSource::skipped)
      .def("read", &read, py::arg("indices"), py::kw_only(), py::arg("out") = py::none(),
           R"(Reads the samples with these numbers, without the interpreter's lock.

Returns an array [n, *shape] with its own memory if all have the same size, else a list of bytes.
Also returns a list if some are corrupt and left out, with None in their places.
out: memory for the samples, which are written one after the other from its front. The result is
then arrays over it: [n, *shape], or a list of uint8 arrays if sizes differ or some are left out.
It is an array or tensor (DLPack) in the host's memory, or an object with the buffer protocol. It is
C-contiguous, writable, large enough, of any shape, and of single bytes or of the dtype of the
samples. Files are read directly into it: pinned memory is filled without another copy
(docs/guide/data.md names the exceptions). After an error its contents are undefined.
Raises InvalidArgument (a number that does not exist; no room in `out`), Corrupt (names file and
byte), Unavailable.)");
  bind_formats(module);
  bind_shard_folders(module);
  module.def(
      "tar_fields",
      [](const py::bytes& sample) {
        const auto bytes = static_cast<std::string_view>(sample);
        py::dict fields;
        for (const TarField& field : take(tar_fields(std::as_bytes(std::span(bytes))))) {
          fields[py::str(field.name)] =
              py::bytes(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
        }
        return fields;
      },
      py::arg("sample"),
      "Returns the files of a sample of open_tar_shards(), by their names without the key,\n"
      "such as 'png'. Raises Corrupt.");
}

}  // namespace ffdl::python
