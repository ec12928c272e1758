#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "benchmarks/harness/suite.h"
#include "benchmarks/ps/rows.h"

// './dev bench ps': the parameter server against what the memory of this machine can do.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  SuiteOptions options;
  std::string command;
  if (const auto code = Suite::parse("ps", argc, argv, options, command)) return *code;
  auto suite = Suite::open("ps", command, options);
  if (!suite.ok()) {
    fmt::print(stderr, "{}\n", suite.status().to_string());
    return 1;
  }
  const Reference machine = measure_machine(*suite);
  fold_rows(*suite, machine);
  transfer_rows(*suite, machine);
  latency_rows(*suite, machine);
  train_rows(*suite, machine);
  death_rows(*suite, machine);
  peer_rows(*suite);
  return suite->finish();
}
