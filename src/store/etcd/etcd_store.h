#pragma once

#include <memory>
#include <string_view>

#include "ffdl/store.h"

namespace ffdl::store {

// Opens the store of an etcd, through its JSON gateway. `places` is
// host:port[,host:port]...[?certificates=FOLDER].
// Errors: see open_store; kUnimplemented if FFDL_WITH_ETCD is off.
Result<std::unique_ptr<Store>> open_etcd_store(std::string_view places, Runtime& runtime,
                                               const StoreOptions& options);

}  // namespace ffdl::store
