#include <string_view>

#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/rows.h"

// './dev bench rescale': how soon the members of a job know that their world has changed,
// and how long their training stands still for it.
int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_role({argv + 2, argv + argc});
  return Suite::run("rescale", argc, argv, [](Suite& suite) {
    death_rows(suite);
    change_rows(suite);
    overhead_row(suite);
  });
}
