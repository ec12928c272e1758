#include "base/errors.h"
#include "ffdl/store.h"
#include "store/etcd/etcd_store.h"
#include "store/local/file_store.h"
#include "store/local/memory_store.h"
#include "store/tcp/tcp_store.h"

namespace ffdl {

Result<std::unique_ptr<Store>> open_store(std::string_view url, Runtime& runtime,
                                          const StoreOptions& options) {
  constexpr std::string_view kFile = "file://";
  if (url == "mem://") return std::unique_ptr<Store>(new store::MemoryStore(runtime));
  if (url.starts_with(kFile) && url.size() > kFile.size() && url[kFile.size()] == '/') {
    return store::FileStore::open(std::string(url.substr(kFile.size())), runtime, options);
  }
  constexpr std::string_view kTcp = "tcp://";
  if (url.starts_with(kTcp) && url.size() > kTcp.size()) {
    return store::TcpStore::open(url.substr(kTcp.size()), runtime, options);
  }
  constexpr std::string_view kEtcd = "etcd://";
  if (url.starts_with(kEtcd) && url.size() > kEtcd.size()) {
    return store::open_etcd_store(url.substr(kEtcd.size()), runtime, options);
  }
  return base::invalid_argument(
      "open store '{}': no store has such a URL; use mem://, file:///absolute/folder, "
      "tcp://host:port, tcp:///absolute/folder or etcd://host:port",
      url);
}

}  // namespace ffdl
