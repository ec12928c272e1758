#include "elastic/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/state/file_system.h"

namespace ffdl::elastic {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kMetadata = "__metadata__";
// Aligns the first tensor with a disk's block.
constexpr uint64_t kHeadAlignment = kBlockBytes;

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array kDTypeNames = {
    DTypeName{DType::kInt8, "I8"},     DTypeName{DType::kInt16, "I16"},
    DTypeName{DType::kInt32, "I32"},   DTypeName{DType::kInt64, "I64"},
    DTypeName{DType::kFloat16, "F16"}, DTypeName{DType::kBFloat16, "BF16"},
    DTypeName{DType::kFloat32, "F32"}, DTypeName{DType::kFloat64, "F64"},
};

Status corrupt(uint64_t at, std::string_view what) {
  return base::make_error(StatusCode::kCorrupt, "byte {}: {}", at, what);
}

// Reports a wrong part of readable text, with the position of the text's beginning.
Status wrong(std::string_view tensor, std::string_view what) {
  return base::make_error(StatusCode::kCorrupt, "byte {}: tensor '{}' {}", kHeadLengthBytes, tensor,
                          what);
}

std::optional<std::vector<uint64_t>> numbers(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return {};
  std::vector<uint64_t> all;
  for (const OrderedJson& one : *found) {
    if (!one.is_number_unsigned()) return {};
    all.push_back(one.get<uint64_t>());
  }
  return all;
}

Result<TensorEntry> parse_tensor(const std::string& name, const OrderedJson& json) {
  TensorEntry entry;
  entry.name = name;
  if (!json.is_object()) return wrong(name, "is not an object");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return wrong(name, "has no dtype");
  const auto known = std::find_if(
      kDTypeNames.begin(), kDTypeNames.end(),
      [&](const DTypeName& one) { return one.name == dtype->get_ref<const std::string&>(); });
  if (known == kDTypeNames.end()) {
    return base::make_error(StatusCode::kUnimplemented, "byte {}: tensor '{}' is of dtype '{}'",
                            kHeadLengthBytes, name, dtype->get_ref<const std::string&>());
  }
  entry.dtype = known->dtype;
  auto shape = numbers(json, "shape");
  const auto offsets = numbers(json, "data_offsets");
  if (!shape) return wrong(name, "has no shape");
  if (!offsets || offsets->size() != 2) return wrong(name, "has no data_offsets");
  entry.shape = *std::move(shape);
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  if (entry.begin > entry.end) return wrong(name, "ends before it begins");
  uint64_t bytes = element_bytes(entry.dtype);
  for (const uint64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return wrong(name, "is too large");
  }
  if (entry.end - entry.begin != bytes)
    return wrong(name, "has another number of bytes than its shape needs");
  return entry;
}

}  // namespace

std::string encode(const SafetensorsHead& head) {
  OrderedJson json = OrderedJson::object();
  if (!head.metadata.empty()) json[std::string(kMetadata)] = head.metadata;
  for (const TensorEntry& tensor : head.tensors) {
    const auto name = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                   [&](const DTypeName& one) { return one.dtype == tensor.dtype; });
    json[tensor.name] = {{"dtype", name->name},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  const uint64_t ragged = (kHeadLengthBytes + text.size()) % kHeadAlignment;
  if (ragged != 0) text.append(kHeadAlignment - ragged, ' ');
  const uint64_t length = text.size();
  std::string bytes(kHeadLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

Result<uint64_t> parse_head_length(std::string_view first_bytes, uint64_t file_bytes) {
  uint64_t length = 0;
  if (first_bytes.size() < sizeof length)
    return corrupt(0, "it is too short for a safetensors file");
  std::memcpy(&length, first_bytes.data(), sizeof length);
  if (length < 2 || length > base::kSafetensorsHeadMax || length > file_bytes - kHeadLengthBytes) {
    return corrupt(0, fmt::format("a head of {} bytes in a file of {}", length, file_bytes));
  }
  return length;
}

Result<SafetensorsHead> parse_head(std::string_view text, uint64_t data_bytes) {
  if (text.empty() || text.front() != '{') return corrupt(kHeadLengthBytes, "there is no object");
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object()) return corrupt(kHeadLengthBytes, "the head is not a JSON object");
  SafetensorsHead head;
  for (const auto& [name, value] : json.items()) {
    if (name != kMetadata) {
      FFDL_ASSIGN_OR_RETURN(TensorEntry entry, parse_tensor(name, value));
      head.tensors.push_back(std::move(entry));
      continue;
    }
    if (!value.is_object()) return corrupt(kHeadLengthBytes, "its metadata is not an object");
    for (const auto& [key, one] : value.items()) {
      if (!one.is_string())
        return corrupt(kHeadLengthBytes, "its metadata has a value that is not text");
      head.metadata[key] = one.get<std::string>();
    }
  }
  std::stable_sort(head.tensors.begin(), head.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  uint64_t next = 0;
  for (const TensorEntry& tensor : head.tensors) {
    if (tensor.begin != next) return wrong(tensor.name, "does not begin where the last one ends");
    next = tensor.end;
  }
  if (next != data_bytes) {
    return corrupt(
        kHeadLengthBytes + text.size(),
        fmt::format("there are {} bytes of tensors, but the head describes {}", data_bytes, next));
  }
  return head;
}

}  // namespace ffdl::elastic
