#include "store/etcd/messages.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "net/base64.h"

namespace ffdl::store::etcd {

using net::to_base64;

namespace {

using Json = nlohmann::json;

// Limits to etcd's signed 64 bits: no lease or revision is beyond them.
std::string number(uint64_t value) {
  return std::to_string(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
}

// Returns the least key after all that begin with the prefix. A zero alone means no end.
std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

Json range_of(std::string_view prefix) {
  const std::string_view first = prefix.empty() ? std::string_view("\0", 1) : prefix;
  return {{"key", to_base64(first)}, {"range_end", to_base64(end_of(prefix))}};
}

Json put_of(std::string_view key, std::string_view value, LeaseId lease) {
  return {{"key", to_base64(key)}, {"value", to_base64(value)}, {"lease", number(lease)}};
}

Status is_corrupt(std::string_view why) {
  return base::make_error(StatusCode::kCorrupt,
                          "read an answer of etcd: '{}' is missing or wrong; is it an etcd that "
                          "answers there",
                          why);
}

// Reads fields of an answer. It has failed after the first field of a wrong kind, and then returns
// empty values. etcd omits fields that are 0, empty or false.
class Fields {
 public:
  explicit Fields(const Json& json) : Fields(&json, "an object") {}

  uint64_t number(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return 0;
    if (value->is_number_unsigned()) return value->get<uint64_t>();
    uint64_t read = 0;
    if (value->is_string()) {
      const auto& text = value->get_ref<const std::string&>();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
      if (error == std::errc() && end == text.data() + text.size()) return read;
    }
    fail(name);
    return 0;
  }
  std::string text(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    fail(name);
    return {};
  }
  std::string bytes(const char* name) {
    auto read = net::from_base64(text(name));
    if (read) return *std::move(read);
    fail(name);
    return {};
  }
  bool truth(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    fail(name);
    return false;
  }
  Fields object(const char* name) { return Fields(find(name), name); }
  // Calls `take` with each object of a list, as long as nothing has failed.
  template <class Take>
  void each(const char* name, Take&& take) {
    const Json* list = find(name);
    if (list == nullptr) return;
    if (!list->is_array()) return fail(name);
    for (const Json& one : *list) {
      Fields fields(&one, name);
      take(fields);
      fail_with(fields);
      if (failed()) return;
    }
  }

  void fail(std::string_view why) {
    if (why_.empty()) why_ = why;
  }
  void fail_with(const Fields& part) {
    if (part.failed()) fail(part.why_);
  }
  bool failed() const { return !why_.empty(); }
  Status outcome() const { return failed() ? is_corrupt(why_) : Status(); }

 private:
  Fields(const Json* object, std::string_view name) : object_(object) {
    if (object_ == nullptr || !object_->is_object()) fail(name);
  }
  // Returns null if it is absent.
  const Json* find(const char* name) const {
    if (failed()) return nullptr;
    const auto found = object_->find(name);
    return found == object_->end() ? nullptr : &*found;
  }

  const Json* object_;
  std::string why_;
};

Json parse(std::string_view text) { return Json::parse(text, nullptr, false); }

// Reads the header, which every answer has. No store is older than revision 1.
Revision take_newest(Fields& answer) {
  Fields header = answer.object("header");
  const Revision newest = header.number("revision");
  answer.fail_with(header);
  if (newest == 0) answer.fail("revision");
  return newest;
}

Entry take_entry(Fields& fields) {
  Entry entry;
  entry.key = fields.bytes("key");
  entry.value = fields.bytes("value");
  entry.revision = fields.number("mod_revision");
  entry.lease = fields.number("lease");
  if (entry.key.empty()) fields.fail("key");
  if (entry.revision == 0) fields.fail("mod_revision");
  return entry;
}

std::vector<Entry> take_entries(Fields& fields) {
  std::vector<Entry> entries;
  fields.each("kvs", [&](Fields& one) { entries.push_back(take_entry(one)); });
  return entries;
}

// The codes of gRPC that etcd uses.
enum Code : uint64_t {
  kInvalid = 3,
  kNotThere = 5,
  kNotAllowed = 7,
  kFull = 8,
  kOutOfRange = 11,
  kNotMade = 12,
  kLost = 15,
  kWhoAreYou = 16,
};

}  // namespace

std::string get_request(std::string_view key) { return Json{{"key", to_base64(key)}}.dump(); }

std::string list_request(std::string_view prefix) { return range_of(prefix).dump(); }

std::string old_keys_request(std::string_view prefix, Revision at) {
  Json request = range_of(prefix);
  request["keys_only"] = true;
  request["revision"] = number(at);
  return request.dump();
}

std::string newest_request() {
  // A user may be allowed to read no other keys than those of jobs. This one does not exist.
  return get_request("ffdl/");
}

std::string put_request(std::string_view key, std::string_view value, LeaseId lease) {
  return put_of(key, value, lease).dump();
}

std::string compare_and_put_request(std::string_view key, Revision expected, std::string_view value,
                                    LeaseId lease) {
  const Json compare = {{"key", to_base64(key)},
                        {"target", "MOD"},
                        {"result", "EQUAL"},
                        {"mod_revision", number(expected)}};
  const Json range = {{"key", to_base64(key)}, {"keys_only", true}};
  return Json{{"compare", Json::array({compare})},
              {"success", Json::array({Json{{"request_put", put_of(key, value, lease)}}})},
              {"failure", Json::array({Json{{"request_range", range}}})}}
      .dump();
}

std::string remove_request(std::string_view key) { return get_request(key); }

std::string grant_request(uint64_t seconds) { return Json{{"TTL", number(seconds)}}.dump(); }

std::string authenticate_request(std::string_view user, std::string_view password) {
  return Json{{"name", user}, {"password", password}}.dump();
}

std::string lease_request(LeaseId lease) { return Json{{"ID", number(lease)}}.dump(); }

std::string watch_request(std::string_view prefix, Revision from) {
  Json request = range_of(prefix);
  request["start_revision"] = number(from);
  request["fragment"] = true;  // no answer is longer than one request may be
  return Json{{"create_request", std::move(request)}}.dump();
}

Result<Range> read_range(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  Range range;
  range.newest = take_newest(answer);
  range.entries = take_entries(answer);
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return range;
}

Result<Revision> read_change(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  const Revision newest = take_newest(answer);
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return newest;
}

Result<Compared> read_compared(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  Compared compared;
  compared.newest = take_newest(answer);
  compared.is_done = answer.truth("succeeded");
  int parts = 0;
  answer.each("responses", [&](Fields& one) {
    ++parts;
    Fields part = one.object(compared.is_done ? "response_put" : "response_range");
    for (const Entry& entry : take_entries(part)) compared.present = entry.revision;
    one.fail_with(part);
  });
  if (parts != 1) answer.fail("responses");
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return compared;
}

Result<std::string> read_token(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  std::string token = answer.text("token");
  if (token.empty()) answer.fail("token");
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return token;
}

Result<LeaseId> read_granted(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  const LeaseId lease = answer.number("ID");
  if (lease == kNoLease) answer.fail("ID");
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return lease;
}

Result<bool> read_kept(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  Fields result = answer.object("result");
  if (result.number("ID") == kNoLease) result.fail("ID");
  const bool kept = result.number("TTL") > 0;
  answer.fail_with(result);
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return kept;
}

Result<Watched> read_watched(std::string_view line) {
  const Json json = parse(line);
  Fields answer(json);
  Watched watched;
  if (json.is_object() && json.contains("error")) {
    Fields error = answer.object("error");
    watched.is_over = true;
    watched.why = error.text("message");
    answer.fail_with(error);
    FFDL_RETURN_IF_ERROR(answer.outcome());
    return watched;
  }
  Fields result = answer.object("result");
  result.each("events", [&](Fields& event) {
    Fields entry = event.object("kv");
    watched.newest = std::max(watched.newest, take_entry(entry).revision);
    event.fail_with(entry);
  });
  watched.is_over = result.truth("canceled");
  watched.compacted = result.number("compact_revision");
  watched.why = result.text("cancel_reason");
  answer.fail_with(result);
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return watched;
}

Result<Version> read_version(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  const std::string words = answer.text("etcdserver");
  Version version;
  const char* const end = words.data() + words.size();
  const auto major = std::from_chars(words.data(), end, version.major);
  const bool goes_on = major.ec == std::errc() && major.ptr != end && *major.ptr == '.';
  if (!goes_on || std::from_chars(major.ptr + 1, end, version.minor).ec != std::errc()) {
    answer.fail("etcdserver");
  }
  FFDL_RETURN_IF_ERROR(answer.outcome());
  return version;
}

Status read_failure(std::string_view text, std::string_view what) {
  const Json json = parse(text);
  Fields answer(json);
  const uint64_t code = answer.number("code");
  const std::string message = answer.text("message");
  if (answer.failed() || code == 0) {
    return base::make_error(StatusCode::kUnavailable,
                            "{}: the answer is not etcd's; check the address", what);
  }
  const auto failure = [&](StatusCode kind, std::string_view advice) {
    return base::make_error(kind, "{}: etcd reports '{}'; {}", what, message, advice);
  };
  switch (code) {
    case kInvalid:
      return failure(StatusCode::kInvalidArgument, "correct the call, or etcd's limits");
    case kNotThere:
      return failure(StatusCode::kNotFound, "grant a lease and put its keys again");
    case kNotAllowed:
    case kWhoAreYou:
      return failure(StatusCode::kInvalidArgument,
                     "give that user a role for the keys, or name another by etcd://USER@HOST:PORT "
                     "and its password as the store's secret");
    case kFull:
      return failure(StatusCode::kExhausted,
                     "compact and defragment it, raise its quota, and disarm its alarm");
    case kOutOfRange:
      return failure(StatusCode::kNotFound, "ask for a newer revision");
    case kNotMade:
      return failure(StatusCode::kInvalidArgument, "use etcd 3.4 or newer");
    case kLost:
      return failure(StatusCode::kCorrupt, "restore its data");
    default:
      return failure(StatusCode::kUnavailable, "try again later");
  }
}

bool is_without_token(std::string_view text) {
  const Json json = parse(text);
  Fields answer(json);
  const uint64_t code = answer.number("code");
  // A token is too old once users or roles have changed. etcd calls that an invalid argument.
  return code == kWhoAreYou ||
         answer.text("message").find("auth store is old") != std::string::npos;
}

}  // namespace ffdl::store::etcd
