#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ffdl/ps/update_rule.h"
#include "ffdl/status.h"
#include "training/options.h"
#include "training/task.h"

namespace training {

// One example: a program with the roles and options of this folder around a task.
struct Example {
  std::string name;         // name of the program
  std::string description;  // a sentence for the help
  std::string data_help;    // the file that --data names
  std::string sample_word;  // the plural: "images"
  TrainOptions defaults;
  std::function<float(ffdl::UpdateRuleKind)> learning_rate;  // the default for a rule
  std::function<ffdl::Result<std::unique_ptr<Task>>(const std::string& path)> load;
  // Returns OK if learners can compute on a GPU of this machine, else the reason. Empty if the
  // example has no such learners: then there is no --device.
  std::function<ffdl::Status()> find_device{};
};

// Serves as main() of an example.
int run_example(const Example& example, int argc, char** argv);

}  // namespace training
