#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "benchmarks/allreduce/rows.h"

// './dev bench allreduce': sums over the ranks of one host, against the floor and other libraries.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  SuiteOptions options;
  std::string command;
  if (const auto code = Suite::parse("allreduce", argc, argv, options, command)) return *code;
  auto suite = Suite::open("allreduce", command, options);
  if (!suite.ok()) {
    fmt::print(stderr, "{}\n", suite.status().to_string());
    return 1;
  }
  allreduce_rows(*suite, measure_machine(*suite));
  return suite->finish();
}
