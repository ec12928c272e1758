#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ffdl/status.h"
#include "ffdl/update_rule.h"
#include "training/options.h"
#include "training/task.h"

namespace training {

// One example: a program with the roles and options of this folder around a task.
struct Example {
  std::string name;         // of the program
  std::string description;  // a sentence for the help
  std::string data_help;    // what --data names
  std::string sample_word;  // the plural: "images"
  TrainOptions defaults;
  std::function<float(ffdl::UpdateRuleKind)> learning_rate;  // where the user names none
  std::function<ffdl::Result<std::unique_ptr<Task>>(const std::string& path)> load;
  // Whether learners can compute on a GPU of this machine, and else why not. Empty where the
  // example has no such learners: there is no --device then.
  std::function<ffdl::Status()> find_device{};
};

// The program: main() of an example.
int run_example(const Example& example, int argc, char** argv);

}  // namespace training
