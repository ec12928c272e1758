#include "data/formats/npy_header.h"

#include <charconv>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

// The limit of NumPy's arrays, in all its versions.
constexpr size_t kAxesMax = 32;

// Reports whether numbers of this kind are stored in this size. Any size fits a kind that is not
// listed.
bool is_stored_size(char kind, uint64_t bytes) {
  switch (kind) {
    case 'b':
      return bytes == 1;
    case 'i':
    case 'u':
      return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    case 'f':
      return bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
    case 'c':
      return bytes == 8 || bytes == 16 || bytes == 32;
    default:
      return true;
  }
}

Status corrupt(std::string_view what) {
  return base::make_error(StatusCode::kCorrupt, "{}; save the array again with numpy.save", what);
}

// Parses the text {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : rest_(text) {}

  Result<NpyHeader> read() {
    NpyHeader header;
    bool has_dtype = false;
    bool has_order = false;
    bool has_shape = false;
    if (!take("{")) return corrupt("its header does not begin with '{'");
    while (!take("}")) {
      const auto key = text();
      if (!key || !take(":")) return corrupt("its header has no 'key': where one must be");
      if (*key == "descr" && !has_dtype) {
        if (peek() == '[') {
          return base::make_error(StatusCode::kUnimplemented,
                                  "its elements are structures; save each field as an array");
        }
        FFDL_RETURN_IF_ERROR(dtype(header));
        has_dtype = true;
      } else if (*key == "fortran_order" && !has_order) {
        header.fortran_order = take("True");
        if (!header.fortran_order && !take("False")) {
          return corrupt("its fortran_order is neither True nor False");
        }
        has_order = true;
      } else if (*key == "shape" && !has_shape) {
        if (!shape(header.shape)) return corrupt("its shape is not a tuple of sizes");
        has_shape = true;
      } else {
        return corrupt("its header has an unknown key, or one twice");
      }
      if (!take(",") && peek() != '}') return corrupt("its header lacks a ','");
    }
    if (!has_dtype || !has_order || !has_shape) return corrupt("its header lacks a key");
    if (!rest().empty()) return corrupt("its header has text after its '}'");
    return header;
  }

 private:
  std::string_view rest() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
    return rest_;
  }
  char peek() { return rest().empty() ? '\0' : rest_.front(); }
  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string_view> text() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return {};
    const size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) return {};
    const std::string_view found = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return found;
  }
  std::optional<uint64_t> number() {
    uint64_t value = 0;
    rest();
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (end.ec != std::errc()) return {};
    rest_.remove_prefix(static_cast<size_t>(end.ptr - rest_.data()));
    return value;
  }
  Status dtype(NpyHeader& header) {
    const auto name = text();
    if (!name) return corrupt("its dtype is not text");
    if (name->find('O') != name->npos) {
      return base::make_error(StatusCode::kUnimplemented,
                              "its elements are Python objects; save numbers or texts");
    }
    const auto bytes = npy_item_bytes(*name);
    if (!bytes) return corrupt("its dtype cannot be read");
    header.dtype = *name;
    header.item_bytes = *bytes;
    return {};
  }
  // Parses "()", "(3,)" or "(3, 4)".
  bool shape(std::vector<uint64_t>& sizes) {
    if (!take("(")) return false;
    while (!take(")")) {
      const auto size = number();
      if (!size || sizes.size() == kAxesMax) return false;
      sizes.push_back(*size);
      if (!take(",") && (peek() != ')' || sizes.size() == 1)) return false;
    }
    return true;
  }

  std::string_view rest_;
};

}  // namespace

Result<uint64_t> npy_header_bytes(std::string_view begin) {
  if (begin.size() < 12 || !begin.starts_with(kNpyMagic)) {
    return corrupt("its first bytes are not those of a .npy file");
  }
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(begin[i])); };
  const uint64_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) return corrupt("its version is not 1.0 to 3.0");
  const uint64_t bytes = version == 1
                             ? 10 + byte(8) + (byte(9) << 8)
                             : 12 + byte(8) + (byte(9) << 8) + (byte(10) << 16) + (byte(11) << 24);
  if (bytes > base::kHeaderTextMax) return corrupt("its header is too long");
  return bytes;
}

Result<NpyHeader> parse_npy_header(std::string_view bytes) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t size, npy_header_bytes(bytes));
  const size_t begin = bytes[6] == 1 ? 10 : 12;
  if (bytes.size() != size || size <= begin) return corrupt("it ends within its header");
  if (bytes.back() != '\n') return corrupt("its header does not end with a line");
  FFDL_ASSIGN_OR_RETURN(NpyHeader header, DictReader(bytes.substr(begin)).read());
  header.data_offset = size;
  return header;
}

std::optional<uint64_t> npy_item_bytes(std::string_view dtype) {
  if (dtype.size() < 3 || std::string_view("<>|").find(dtype[0]) == dtype.npos) return {};
  if (std::string_view("biufcSUV").find(dtype[1]) == dtype.npos) return {};
  uint64_t number = 0;
  const auto end = std::from_chars(dtype.data() + 2, dtype.data() + dtype.size(), number);
  if (end.ec != std::errc() || end.ptr != dtype.data() + dtype.size()) return {};
  if (number == 0 || number > base::kHeaderTextMax || !is_stored_size(dtype[1], number)) return {};
  return dtype[1] == 'U' ? 4 * number : number;
}

}  // namespace ffdl::data
