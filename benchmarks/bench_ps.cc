#include <string_view>

#include "benchmarks/harness/suite.h"
#include "benchmarks/ps/rows.h"

// Runs './dev bench ps': the parameter server against the limits of this machine's memory.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  return Suite::run("ps", argc, argv, [](Suite& suite) {
    const Reference machine = measure_machine(suite);
    fold_rows(suite, machine);
    transfer_rows(suite, machine);
    latency_rows(suite, machine);
    train_rows(suite, machine);
    death_rows(suite, machine);
    peer_rows(suite);
  });
}
