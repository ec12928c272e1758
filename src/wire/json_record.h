#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::wire {

using Json = nlohmann::ordered_json;

// Serializes a record. Bytes that are not UTF-8, for example in a user's address, are replaced.
inline std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Parses a record; the result is discarded() if the text is no JSON.
inline Json parse_json(std::string_view text) { return Json::parse(text, nullptr, false); }

// Reads the fields of one JSON object strictly. After the first field that is missing, of another
// type or out of range it has failed, and all further values are empty: read all fields, then check
// once. Borrows the object.
class RecordReader {
 public:
  explicit RecordReader(const Json& object) : object_(object) {
    if (!object.is_object()) fail("a JSON object");
  }

  bool has(const char* name) const { return !failed() && object_.contains(name); }

  uint64_t number(const char* name, uint64_t most = UINT64_MAX) {
    const Json* value = find(name);
    if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= most) {
      return value->get<uint64_t>();
    }
    fail(name);
    return 0;
  }
  // Reads an integer of [least, most].
  template <class T>
  T integer(const char* name, T least, T most) {
    const Json* value = find(name);
    if (value != nullptr && value->is_number_integer()) {
      const bool fits =
          !value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{INT64_MAX};
      const auto whole = fits ? value->get<int64_t>() : 0;
      if (fits && whole >= int64_t{least} && whole <= int64_t{most}) return static_cast<T>(whole);
    }
    fail(name);
    return {};
  }
  // Reads a finite number.
  double real(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_number() && std::isfinite(value->get<double>())) {
      return value->get<double>();
    }
    fail(name);
    return 0;
  }
  std::string text(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    fail(name);
    return {};
  }
  bool truth(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    fail(name);
    return false;
  }

  // Returns the field as it is; null if it is missing.
  const Json* find(const char* name) const {
    if (failed()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  // Calls `read(RecordReader&)` for the object in the field, and fails if that fails.
  template <class Read>
  void object(const char* name, Read&& read) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_object()) return fail(name);
    RecordReader part(*value);
    read(part);
    fail_with(name, part);
  }
  // Calls `read(RecordReader&)` for each object of the list in the field, of which there are at
  // most `most`. Stops at the first that fails, and fails with it.
  template <class Read>
  void list(const char* name, size_t most, Read&& read) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_array() || value->size() > most) return fail(name);
    for (const Json& one : *value) {
      if (!one.is_object()) return fail(name);
      RecordReader part(one);
      read(part);
      fail_with(name, part);
      if (failed()) return;
    }
  }

  void fail(std::string_view why) {
    if (why_.empty()) why_ = why;
  }
  // Fails as the part in that field has failed: with "field.field of the part".
  void fail_with(const char* name, const RecordReader& part) {
    if (part.failed()) fail(std::string(name) + "." + part.why_);
  }
  bool failed() const { return !why_.empty(); }
  // Returns the name of the first field that is missing or wrong; empty if there is none.
  const std::string& why() const { return why_; }

  // Errors: kCorrupt, with the name of that field. `what` names the record.
  Status outcome(std::string_view what) const;

 private:
  const Json& object_;
  std::string why_{};
};

// Builds the error for a record that something else wrote.
Status corrupt_record(std::string_view what, std::string_view why);

// Calls `read(RecordReader&)` for each object of a record that is a list of objects. Errors:
// kCorrupt, at the first that fails.
template <class Read>
Status read_records(const Json& list, std::string_view what, Read&& read) {
  if (!list.is_array()) return corrupt_record(what, "it is not a list");
  for (const Json& one : list) {
    RecordReader fields(one);
    read(fields);
    if (fields.failed()) return fields.outcome(what);
  }
  return {};
}

}  // namespace ffdl::wire
