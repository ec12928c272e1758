#include <string_view>

#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/rows.h"

// Runs './dev bench rescale': the time until the members of a job know of a change of their world,
// and the pause of their training.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  return Suite::run("rescale", argc, argv, [](Suite& suite) {
    death_rows(suite);
    stall_rows(suite);
    change_rows(suite);
    overhead_row(suite);
  });
}
