#include "benchmarks/harness/suite.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_folder.h"

namespace ffdl::bench {
namespace {

size_t rows_of(const std::string& path) {
  return nlohmann::json::parse(std::ifstream(path)).at("rows").size();
}

// A run that is ended early leaves its rows in PATH.rows. A file with the requested name is
// complete.
TEST(Suite, RowsAreWrittenAsTheyAreMeasured) {
  const TempFolder folder;
  const std::string path = folder.file("rows.json");
  std::string arguments[] = {"bench", "--smoke", "--json", path};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data()};
  const int code = Suite::run("example", 4, argv, [&](Suite& suite) {
    for (size_t rows = 1; rows <= 2; ++rows) {
      suite.missing("a row", "there is none");
      EXPECT_EQ(rows_of(path + ".rows"), rows);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(rows_of(path), 2U);
  EXPECT_FALSE(std::filesystem::exists(path + ".rows"));
}

}  // namespace
}  // namespace ffdl::bench
