#include <string_view>

#include "benchmarks/allreduce/rows.h"

// Runs './dev bench allreduce': sums over the ranks of one host, against the floor and other
// libraries.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  return Suite::run("allreduce", argc, argv,
                    [](Suite& suite) { allreduce_rows(suite, measure_machine(suite)); });
}
