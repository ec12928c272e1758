// Reads arbitrary bytes as the head of a safetensors file, as a manifest and as names of files.
// They are refused, or the result is the same when it is written and read again.
#include <string>
#include <string_view>

#include "base/check.h"
#include "elastic/checkpoint/manifest.h"
#include "elastic/checkpoint/safetensors.h"

namespace {

using namespace ffdl;

void check_refusal(const Status& status) {
  FFDL_CHECK(status.code() == StatusCode::kCorrupt || status.code() == StatusCode::kUnimplemented,
             "the only things wrong with it");
}

void read_as_file(std::string_view bytes) {
  const auto length = elastic::parse_head_length(bytes.substr(0, 8), bytes.size());
  if (!length.ok()) return check_refusal(length.status());
  const std::string_view text = bytes.substr(8, *length);
  FFDL_CHECK(text.size() == *length, "the head lies in the file");
  const uint64_t data_bytes = bytes.size() - 8 - *length;
  const auto head = elastic::parse_head(text, data_bytes);
  if (!head.ok()) return check_refusal(head.status());
  uint64_t next = 0;
  for (const auto& tensor : head->tensors) {
    FFDL_CHECK(tensor.begin == next && tensor.end <= data_bytes, "each byte is one tensor's");
    next = tensor.end;
  }
  const auto again = elastic::parse_head(elastic::encode(*head).substr(8), data_bytes);
  FFDL_CHECK(again.ok(), "what was written can be read");
}

void read_as_manifest(std::string_view text) {
  const auto manifest = elastic::parse_manifest(text);
  if (!manifest.ok()) return check_refusal(manifest.status());
  const auto again = elastic::parse_manifest(elastic::encode(*manifest));
  FFDL_CHECK(again.ok() && again->shards == manifest->shards && again->tensors == manifest->tensors,
             "what was written can be read");
  for (const auto& shard : manifest->shards) {
    FFDL_CHECK(shard.name.find('/') == shard.name.npos, "a file of its folder");
  }
}

void read_as_name(std::string_view name) {
  if (const auto label = elastic::parse_folder_name(name)) {
    FFDL_CHECK(elastic::folder_name(*label) == name, "one name for one label");
  }
  if (const auto published = elastic::parse_published_name(name)) {
    FFDL_CHECK(elastic::is_checkpoint_file(name), "a file of a checkpoint");
  }
  const std::vector<elastic::TensorFacts> tensors = {{"w", DType::kFloat32, 1000}};
  if (const auto piece = elastic::piece_of(name, tensors)) {
    FFDL_CHECK(piece->begin + piece->count <= 1000, "a part of its tensor");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_as_file(bytes);
  read_as_manifest(bytes);
  read_as_name(bytes);
  return 0;
}
