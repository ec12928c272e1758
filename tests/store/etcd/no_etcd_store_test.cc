#include <gtest/gtest.h>

#include "ffdl/store.h"
#include "support/status_matchers.h"

// A separate program, which links the stub in place of the client.
namespace ffdl {
namespace {

TEST(NoEtcdStore, IsNamedWithItsOption) {
  EXPECT_FAILS(open_store("etcd://127.0.0.1:2379", system_runtime()), StatusCode::kUnimplemented,
               "-DFFDL_WITH_ETCD=ON");
}

}  // namespace
}  // namespace ffdl
