#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/rows.h"

// './dev bench rescale': how soon the members of a job know that their world has changed.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  SuiteOptions options;
  std::string command;
  if (const auto code = Suite::parse("rescale", argc, argv, options, command)) return *code;
  auto suite = Suite::open("rescale", command, options);
  if (!suite.ok()) {
    fmt::print(stderr, "{}\n", suite.status().to_string());
    return 1;
  }
  death_rows(*suite);
  return suite->finish();
}
