#pragma once

#include <memory>
#include <string_view>

#include "ffdl/store.h"

namespace ffdl::store {

// The store that an etcd is, through its JSON gateway; `places` is host:port[,host:port]...
// Errors: see open_store; kUnimplemented where FFDL_WITH_ETCD is off.
Result<std::unique_ptr<Store>> open_etcd_store(std::string_view places, Runtime& runtime,
                                               const StoreOptions& options);

}  // namespace ffdl::store
