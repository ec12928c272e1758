// Handwritten digits, learned by several processes through one shared-memory parameter server.
#include "digits/options.h"
#include "digits/roles.h"
#include "digits/supervisor.h"

int main(int argc, char** argv) {
  const digits::Invocation invocation = digits::parse_command_line(argc, argv);
  switch (invocation.role) {
    case digits::Role::kServer:
      return digits::run_server(invocation);
    case digits::Role::kLearner:
      return digits::run_learner(invocation);
    case digits::Role::kTrain:
      break;
  }
  return digits::run_supervisor(invocation.options);
}
