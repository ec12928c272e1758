#include "store/tcp/server_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/errors.h"
#include "base/limits.h"
#include "base/own_files.h"
#include "base/process.h"
#include "store/local/files.h"

namespace ffdl::store {

using base::make_error;

Result<base::ForkPrivateFd> lock_server_folder(const std::string& folder) {
  FFDL_RETURN_IF_ERROR(base::make_own_folder(folder).status());
  const std::string path = folder + "/server.lock";
  FFDL_ASSIGN_OR_RETURN(base::OwnFd file, open_file(path, O_RDWR | O_CREAT));
  base::ForkPrivateFd lock(file.release());
  if (!lock.valid()) {
    return make_error(StatusCode::kExhausted,
                      "lock store '{}': more than {} descriptors of this library are open", path,
                      base::kForkPrivateMax);
  }
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return cannot_use("lock store", path);
    return make_error(StatusCode::kConflict,
                      "serve the store in '{}': {} serves it; connect to that one, or end it",
                      folder, base::describe_lock_holder(lock.get()));
  }
  return lock;
}

std::string log_in(const std::string& folder) { return folder + "/log"; }

Result<net::Address> read_server_address(const std::string& folder) {
  FFDL_ASSIGN_OR_RETURN(const std::string text, read_file(folder + "/address"));
  if (text.empty()) {
    return make_error(StatusCode::kNotFound,
                      "find the server of the store in '{}': none has written its address yet; "
                      "wait for it",
                      folder);
  }
  auto address = net::parse_address(text);
  if (address.ok()) return address;
  return make_error(StatusCode::kCorrupt, "find the server of the store in '{}': {}", folder,
                    address.status().message());
}

Status write_server_address(const std::string& folder, const net::Address& address) {
  return replace_file(folder + "/address", address.text());
}

}  // namespace ffdl::store
