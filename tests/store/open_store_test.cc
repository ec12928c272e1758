#include <gtest/gtest.h>

#include "ffdl/store.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

TEST(OpenStore, RefusesWhatIsNoStore) {
  for (const char* url : {"", "mem", "mem://name", "file://", "file://relative", "tcp:/x", "/a"}) {
    EXPECT_FAILS(open_store(url, system_runtime()), StatusCode::kInvalidArgument,
                 "use mem://, file:///absolute/folder");
  }
}

TEST(OpenStore, EachMemoryStoreIsItsOwn) {
  ASSERT_OK_AND_ASSIGN(auto one, open_store("mem://", system_runtime()));
  ASSERT_OK_AND_ASSIGN(auto other, open_store("mem://", system_runtime()));
  ASSERT_OK(one->put("k", "v"));
  EXPECT_FAILS(other->get("k"), StatusCode::kNotFound, "'k'");
}

}  // namespace
}  // namespace ffdl
