#include "store/tcp/folder_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/errors.h"
#include "net/challenge.h"
#include "store/local/files.h"

namespace ffdl::store {
namespace {

constexpr size_t kDigits = 2 * net::kNonceBytes;

std::string path_in(const std::string& folder) { return folder + "/secret"; }

bool is_secret(std::string_view text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status write_new(const std::string& path, const std::string& secret) {
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  const Descriptor file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return cannot_use("write store secret", fresh);
  errno = write_all(file.get(), secret);
  if (errno != 0 || ::fsync(file.get()) != 0) return cannot_use("write store secret", fresh);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return cannot_use("write store secret", path);
  return {};
}

}  // namespace

Result<std::string> read_folder_secret(const std::string& folder) {
  const std::string path = path_in(folder);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return std::string();
  if (file.get() < 0) return cannot_use("read store secret", path);
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return cannot_use("read store secret", path);
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 077) != 0) {
    return base::make_error(
        StatusCode::kUnavailable,
        "read store secret '{}': it is not a file that only this user can access; use another "
        "folder, or remove this one",
        path);
  }
  std::string text(kDigits + 1, '\0');
  const ssize_t count = ::pread(file.get(), text.data(), text.size(), 0);
  if (count < 0) return cannot_use("read store secret", path);
  text.resize(static_cast<size_t>(count));
  if (is_secret(text)) return text;
  return base::make_error(StatusCode::kCorrupt,
                          "read store secret '{}': it does not hold {} hexadecimal digits; use "
                          "another folder",
                          path, kDigits);
}

Result<std::string> make_folder_secret(const std::string& folder) {
  FFDL_ASSIGN_OR_RETURN(const std::string there, read_folder_secret(folder));
  if (!there.empty()) return there;
  FFDL_ASSIGN_OR_RETURN(const std::string bytes, net::make_nonce());
  std::string secret;
  for (const char byte : bytes) {
    secret += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  FFDL_RETURN_IF_ERROR(write_new(path_in(folder), secret));
  return secret;
}

}  // namespace ffdl::store
