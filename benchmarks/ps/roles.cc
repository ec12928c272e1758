#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "benchmarks/harness/resident.h"
#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

// Arguments: SEGMENT PARAMETERS [CPU]
Status play_server(const std::vector<std::string>& arguments) {
  if (arguments.size() > 2) stay_on({std::stoi(arguments[2])});
  ParameterServerOptions options;
  options.name = arguments[0];
  options.parameters = std::stoull(arguments[1]);
  options.rule = {.kind = UpdateRuleKind::kSgd, .learning_rate = 1.0F};
  options.non_finite = NonFinite::kAccept;
  FFDL_ASSIGN_OR_RETURN(auto server, ParameterServer::create(options));
  std::ranges::fill(server->weights(), 0.0F);
  FFDL_RETURN_IF_ERROR(server->start());
  wait_for_the_end();
  return server->stop();
}

// Argument: SEGMENT
Status play_learner(const std::vector<std::string>& arguments) {
  FFDL_ASSIGN_OR_RETURN(auto learner, Learner::attach(arguments[0], deadline_in(kPatience)));
  FFDL_ASSIGN_OR_RETURN(const auto slot, learner->gradient_slot(deadline_in(kPatience)));
  std::ranges::fill(slot, 1.0F);
  FFDL_ASSIGN_OR_RETURN([[maybe_unused]] const double seconds, push_and_fold(*learner));
  wait_for_the_end();
  return learner->detach(deadline_in(kPatience));
}

}  // namespace

int play_role(const std::vector<std::string>& arguments) {
  const bool server = arguments.size() >= 3 && arguments[0] == "server";
  const bool learner = arguments.size() == 2 && arguments[0] == "learner";
  if (!server && !learner) {
    fmt::print(stderr, "play '{}': no such role; this option is for bench_ps itself\n",
               arguments.empty() ? "" : arguments[0]);
    return 1;
  }
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  const Status status = server ? play_server(rest) : play_learner(rest);
  if (!status.ok()) fmt::print(stderr, "{}: {}\n", arguments[0], status.to_string());
  return status.ok() ? 0 : 1;
}

}  // namespace ffdl::bench
