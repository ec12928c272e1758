#include "training/example.h"

#include "training/options.h"
#include "training/roles.h"
#include "training/supervisor.h"

namespace training {

int run_example(const Example& example, int argc, char** argv) {
  const Invocation invocation = parse_command_line(example, argc, argv);
  switch (invocation.role) {
    case Role::kServer:
      return run_server(example, invocation);
    case Role::kLearner:
      return run_learner(example, invocation);
    case Role::kTrain:
      break;
  }
  return run_supervisor(example, invocation.options);
}

}  // namespace training
