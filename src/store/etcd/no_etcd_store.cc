#include "base/errors.h"
#include "store/etcd/etcd_store.h"

// Replaces etcd_store.cc if FFDL_WITH_ETCD is off.
namespace ffdl::store {

Result<std::unique_ptr<Store>> open_etcd_store(std::string_view places, Runtime&,
                                               const StoreOptions&) {
  return base::make_error(StatusCode::kUnimplemented,
                          "open store 'etcd://{}': this build has no etcd client; build ffdl with "
                          "-DFFDL_WITH_ETCD=ON (Debian: libcpp-httplib-dev)",
                          places);
}

}  // namespace ffdl::store
