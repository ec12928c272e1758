#include <gtest/gtest.h>

#include "ffdl/store.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

TEST(StoreServer, TellsWhereItIs) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(auto server, StoreServer::start({.folder = folder.path()}));
  EXPECT_TRUE(server->url().starts_with("tcp://127.0.0.1:"));
  ASSERT_OK_AND_ASSIGN(auto by_address, open_store(server->url(), system_runtime()));
  ASSERT_OK_AND_ASSIGN(auto by_folder, open_store("tcp://" + folder.path(), system_runtime()));
  ASSERT_OK(by_address->put("k", "v"));
  EXPECT_EQ(by_folder->get("k")->value, "v");
}

TEST(StoreServer, MakesASecretWhereItIsAskedTo) {
  const TempFolder folder;
  std::string secret;
  {
    ASSERT_OK_AND_ASSIGN(auto server,
                         StoreServer::start({.folder = folder.path(), .makes_secret = true}));
    secret = server->secret();
    EXPECT_EQ(secret.size(), 64U);
    EXPECT_FAILS(open_store(server->url(), system_runtime()), StatusCode::kInvalidArgument,
                 "another secret");
    EXPECT_OK(open_store(server->url(), system_runtime(), {.secret = secret}));
    EXPECT_OK(open_store("tcp://" + folder.path(), system_runtime()));
  }
  ASSERT_OK_AND_ASSIGN(auto next, StoreServer::start({.folder = folder.path()}));
  EXPECT_EQ(next->secret(), secret);
  const TempFolder other;
  ASSERT_OK_AND_ASSIGN(
      auto given,
      StoreServer::start({.folder = other.path(), .secret = "s", .makes_secret = true}));
  EXPECT_EQ(given->secret(), "s");
}

TEST(StoreServer, OneServesAFolder) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(auto server, StoreServer::start({.folder = folder.path()}));
  EXPECT_FAILS(StoreServer::start({.folder = folder.path()}), StatusCode::kConflict, folder.path());
}

TEST(StoreServer, WhereItCannotListenIsSaid) {
  const TempFolder folder;
  for (const char* address : {"nowhere", "192.0.2.1:0"}) {
    EXPECT_FAILS(StoreServer::start({.folder = folder.path(), .address = address, .secret = "s"}),
                 StatusCode::kInvalidArgument, address);
  }
  EXPECT_FAILS(StoreServer::start({.folder = folder.path(), .address = "0.0.0.0:0"}),
               StatusCode::kInvalidArgument, "the store has no secret");
}

// Stored values remain and revisions continue. A lease that could not be kept alive gets a whole
// term.
TEST(StoreServer, ANextOneGoesOn) {
  const TempFolder folder;
  Revision last = 0;
  LeaseId lease = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto server, StoreServer::start({.folder = folder.path()}));
    StoreOptions options;
    options.leases_outlive_connection = true;
    ASSERT_OK_AND_ASSIGN(auto store, open_store(server->url(), system_runtime(), options));
    ASSERT_OK_AND_ASSIGN(lease, store->grant_lease(1h));
    ASSERT_OK(store->put("leased", "v", lease));
    ASSERT_OK_AND_ASSIGN(last, store->put("k", "v"));
  }
  ASSERT_OK_AND_ASSIGN(auto server, StoreServer::start({.folder = folder.path()}));
  ASSERT_OK_AND_ASSIGN(auto store, open_store(server->url(), system_runtime()));
  EXPECT_EQ(store->get("k")->revision, last);
  EXPECT_OK(store->get("leased"));
  EXPECT_OK(store->keep_alive(lease));
  ASSERT_OK_AND_ASSIGN(const Revision next, store->put("k", "w"));
  EXPECT_GT(next, last);
}

}  // namespace
}  // namespace ffdl
