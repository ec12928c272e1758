#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/store.h"
#include "support/etcd_server.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

// Lists every back end of a store, for suites that run over each. A new back end is one more line
// at the end.
namespace ffdl::testing {

using namespace std::chrono_literals;

// Holds two clients of one store. If a back end is one object, both share it.
struct StoreUnderTest {
  TempFolder folder{};
  std::unique_ptr<StoreServer> server{};
  std::unique_ptr<EtcdServer> etcd{};
  std::string missing{};  // the reason why this back end cannot be tested here
  std::vector<std::unique_ptr<Store>> handles{};
  Store& first() { return *handles.front(); }
  Store& second() { return *handles.back(); }
};

struct BackEnd {
  std::string name;
  std::function<std::unique_ptr<StoreUnderTest>()> make;
};

using UrlOf = std::function<std::string(StoreUnderTest&)>;

inline std::unique_ptr<StoreUnderTest> make_store(int handles, const UrlOf& url_of) {
  auto made = std::make_unique<StoreUnderTest>();
  const std::string url = url_of(*made);
  for (int i = 0; i < handles; ++i) {
    auto store = open_store(url, system_runtime(), {.operation_timeout = 20s});
    EXPECT_OK(store);
    made->handles.push_back(std::move(store).value());
  }
  return made;
}

inline std::string served(StoreUnderTest& under_test) {
  auto server = StoreServer::start({.folder = under_test.folder.path()});
  EXPECT_OK(server);
  under_test.server = std::move(server).value();
  return under_test.server->url();
}

// Reports a missing etcd, or a missing client of it; the test is then skipped.
inline std::unique_ptr<StoreUnderTest> make_etcd(bool with_certificates = false) {
  if (const std::string why = why_no_etcd(); !why.empty()) {
    auto made = make_store(1, [](StoreUnderTest&) { return "mem://"; });
    made->missing = why;
    return made;
  }
  return make_store(2, [=](StoreUnderTest& under_test) {
    under_test.etcd =
        with_certificates ? EtcdServer::start_with_certificates() : std::make_unique<EtcdServer>();
    return under_test.etcd->url();
  });
}

// The base of tests that run over each back end.
class OverEachStore : public ::testing::TestWithParam<BackEnd> {
 protected:
  void SetUp() override {
    if (!stores_->missing.empty()) GTEST_SKIP() << stores_->missing;
  }

  std::unique_ptr<StoreUnderTest> stores_ = GetParam().make();
  Store& first_ = stores_->first();
  Store& second_ = stores_->second();
};

inline auto all_back_ends() {
  return ::testing::Values(
      BackEnd{"mem", [] { return make_store(1, [](StoreUnderTest&) { return "mem://"; }); }},
      BackEnd{"file",
              [] {
                return make_store(2, [](StoreUnderTest& under_test) {
                  return "file://" + under_test.folder.path() + "/store";
                });
              }},
      BackEnd{"tcp", [] { return make_store(2, served); }},
      // The first client contains the server.
      BackEnd{"tcp_folder",
              [] {
                return make_store(2, [](StoreUnderTest& under_test) {
                  return "tcp://" + under_test.folder.path() + "/store";
                });
              }},
      BackEnd{"etcd", [] { return make_etcd(); }},
      BackEnd{"etcd_with_certificates", [] { return make_etcd(true); }});
}

inline std::string name_of(const ::testing::TestParamInfo<BackEnd>& test) {
  return test.param.name;
}

}  // namespace ffdl::testing
