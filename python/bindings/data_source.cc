#include "ffdl/data_source.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings.h"
#include "ffdl/shard_folder.h"
#include "record.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// Memory of its own, which NumPy owns. No sample is left out.
py::array as_array(const SampleBatch& batch, const SampleFormat& format) {
  std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(batch.size())};
  shape.insert(shape.end(), format.shape.begin(), format.shape.end());
  py::array array(py::dtype(format.dtype), shape);
  auto* to = static_cast<std::byte*>(array.mutable_data());
  py::gil_scoped_release others_may_run;
  for (size_t i = 0; i < batch.size(); ++i, to += format.bytes) {
    std::memcpy(to, batch[i].data(), format.bytes);
  }
  return array;
}

// None for what is left out, so that places are those of the numbers that were asked for.
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

py::object read(const DataSource& source, const std::vector<uint64_t>& indices) {
  SampleBatch batch;
  check(without_lock([&] { return source.read(indices, batch); }));
  const SampleFormat format = source.format();
  if (format.is_fixed && batch.skipped() == 0) return as_array(batch, format);
  return as_bytes(batch);
}

template <class Open>
std::unique_ptr<DataSource> open(Open&& call) {
  return take(without_lock(call));
}

const uint64_t kUnpackedBytes = FileOptions().unpacked_bytes;

std::string with_packed(const char* doc) {
  return std::string(doc) +
         "\nFiles that are compressed (gzip, bzip2, xz, zstd, lz4) are unpacked as a whole, and\n"
         "those used last stay in memory up to unpacked_bytes. on_corrupt: what fails its check\n"
         "raises Corrupt, or is left out and counted (DataSource.skipped).";
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
      [](const Paths& paths, uint64_t record_bytes, uint64_t header_bytes) {
        return open([&] { return open_records(paths, {record_bytes, header_bytes}); });
      },
      "Files of samples of so many bytes each, after a header: uint8[record_bytes].", py::kw_only(),
      py::arg("record_bytes"), py::arg("header_bytes") = 0);
  define(
      "open_npy", [](const Paths& paths) { return open([&] { return open_npy(paths); }); },
      "NumPy's .npy in C order; a sample is a row: array[i].");
  define(
      "open_tokens",
      [](const Paths& paths, uint64_t window, uint64_t stride, uint64_t token_bytes,
         uint64_t header_bytes) {
        return open(
            [&] { return open_tokens(paths, {window, stride, token_bytes, header_bytes}); });
      },
      "Sample i is the tokens [i * stride, i * stride + window + 1): the input is the first\n"
      "`window` of them, the target the last. stride: 0 for window.",
      py::kw_only(), py::arg("window"), py::arg("stride") = 0, py::arg("token_bytes") = 2,
      py::arg("header_bytes") = 0);
  define(
      "open_lines",
      [](const Paths& paths, bool json, OnCorrupt on_corrupt, uint64_t unpacked_bytes) {
        const FileOptions options = {.on_corrupt = on_corrupt, .unpacked_bytes = unpacked_bytes};
        return open([&] { return open_lines(paths, {.json = json}, options); });
      },
      with_packed("A sample is a line without its end, as bytes. json: each must be JSON."),
      py::kw_only(), py::arg("json") = false, py::arg("on_corrupt") = OnCorrupt::kFail,
      py::arg("unpacked_bytes") = kUnpackedBytes);
  define(
      "open_tf_records",
      [](const Paths& paths, OnCorrupt on_corrupt, uint64_t unpacked_bytes) {
        const FileOptions options = {.on_corrupt = on_corrupt, .unpacked_bytes = unpacked_bytes};
        return open([&] { return open_tf_records(paths, options); });
      },
      with_packed("A sample is the data of a record, as bytes. Both checksums are verified."),
      py::kw_only(), py::arg("on_corrupt") = OnCorrupt::kFail,
      py::arg("unpacked_bytes") = kUnpackedBytes);
  define(
      "open_tar_shards",
      [](const Paths& paths, OnCorrupt on_corrupt, uint64_t unpacked_bytes) {
        const FileOptions options = {.on_corrupt = on_corrupt, .unpacked_bytes = unpacked_bytes};
        return open([&] { return open_tar_shards(paths, options); });
      },
      with_packed("WebDataset: a sample is the stretch of the archive with all files of one key,\n"
                  "as bytes; tar_fields() takes it apart."),
      py::kw_only(), py::arg("on_corrupt") = OnCorrupt::kFail,
      py::arg("unpacked_bytes") = kUnpackedBytes);
}

void bind_shard_folders(py::module_& module) {
  Record<ShardColumn>(module, "ShardColumn",
                      "A column of the samples of a folder of shards. encoding: of its bytes, in\n"
                      "the words of the format. bytes: of each sample; 0: the sample says.")
      .field("name", &ShardColumn::name)
      .field("encoding", &ShardColumn::encoding)
      .field("bytes", &ShardColumn::bytes);
  const auto define = [&](const char* name, auto function, const char* what) {
    module.def(
        name,
        [function](const Paths& folders, bool check_hashes, OnCorrupt on_corrupt,
                   uint64_t unpacked_bytes) {
          const FileOptions options = {.on_corrupt = on_corrupt,
                                       .unpacked_bytes = unpacked_bytes,
                                       .check_hashes = check_hashes};
          return open([&] { return function(folders, options); });
        },
        py::arg("folders"), py::kw_only(), py::arg("check_hashes") = FileOptions().check_hashes,
        py::arg("on_corrupt") = OnCorrupt::kFail, py::arg("unpacked_bytes") = kUnpackedBytes,
        (std::string("Folders of shards with an index.json, as ") + what +
         " writes them;\n"
         "shard_fields() takes a sample apart. Compressed shards (zstd, gz, bz2) are\n"
         "unpacked when one of their samples is asked for, up to unpacked_bytes of them\n"
         "stay in memory. check_hashes: those of the index are compared when a shard is\n"
         "first read. on_corrupt: a shard that is not what the index says raises Corrupt, or\n"
         "its samples are left out and counted (DataSource.skipped). Raises NotFound,\n"
         "Corrupt, Unimplemented, InvalidArgument.")
            .c_str());
  };
  define("open_mds", open_mds, "MosaicML Streaming");
  define("open_litdata", open_litdata, "LitData");
  module.def(
      "shard_columns", [](const std::string& folder) { return take(shard_columns(folder)); },
      py::arg("folder"), "What shard_fields() needs of a folder. Raises NotFound, Corrupt.");
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
      "The bytes of each column of a sample, by its name. Raises Corrupt.");
}

}  // namespace

void bind_data_source(py::module_& module) {
  Record<SampleFormat>(
      module, "SampleFormat",
      "What the samples of a source are. dtype: as NumPy writes it. shape: of one,\n"
      "if all have the same size. bytes: of one; about so many where they differ.")
      .field("dtype", &SampleFormat::dtype)
      .field("shape", &SampleFormat::shape)
      .field("bytes", &SampleFormat::bytes)
      .field("is_fixed", &SampleFormat::is_fixed);
  py::native_enum<OnCorrupt>(
      module, "OnCorrupt", "enum.Enum",
      "What a sample that fails its check is: an error, or left out and counted.")
      .value("FAIL", OnCorrupt::kFail)
      .value("SKIP", OnCorrupt::kSkip)
      .finalize();
  Record<SkippedData>(
      module, "SkippedData",
      "What a source has left out. samples: asked for and not given, each time that\n"
      "they were. bytes: of files, that belong to no sample. first: the reason of\n"
      "the first.")
      .field("samples", &SkippedData::samples)
      .field("bytes", &SkippedData::bytes)
      .field("first", &SkippedData::first);
  py::class_<DataSource>(module, "DataSource",
                         R"(Numbered samples in files, for ElasticLoader or by themselves.

    data = ffdl.open_tokens(["train.bin"], window=256)
    loader = ffdl.data.ElasticLoader(data, batch_samples=64)

Any thread, several at a time; also in processes that are forked. Use open_... to make one.)")
      .def("__len__", [](const DataSource& source) { return source.samples(); })
      .def_property_readonly("samples", &DataSource::samples)
      .def_property_readonly("format", &DataSource::format)
      .def_property_readonly("skipped", &DataSource::skipped)
      .def("read", &read, py::arg("indices"),
           "The samples of these numbers: an array [n, *shape] of its own memory where all have\n"
           "the same size, a list of bytes otherwise; None for each that is corrupt and left out.\n"
           "Raises InvalidArgument (a number that is not there), Corrupt (names file and byte),\n"
           "Unavailable.");
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
      "The files of a sample of open_tar_shards(), by their names without the key, such as\n"
      "'png'. Raises Corrupt.");
}

}  // namespace ffdl::python
