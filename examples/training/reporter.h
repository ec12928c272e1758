#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "ffdl/status.h"
#include "ffdl/types.h"
#include "training/audit.h"
#include "training/example.h"
#include "training/options.h"

namespace training {

struct Progress {
  double epoch = 0;
  uint64_t samples = 0;
  double samples_per_s = 0;
  float train_loss = 0;
  float val_loss = 0;
  float val_accuracy = 0;
  uint64_t staleness_median = 0;
};

struct Summary {
  double test_accuracy = 0;
  double val_accuracy = 0;
  double samples_per_s = 0;
  double bytes_per_s = 0;  // to and from the server, all learners together
  double seconds = 0;
  Ledger ledger;
  ffdl::ParameterServerStats stats;
};

// The process of an event.
struct Subject {
  std::string role;
  int slot = -1;  // of a learner
  int pid = 0;
};

// Reports events: JSON lines in the file, and on standard output the same lines or text for people.
// Each line has `event` and `t_s`, the seconds since the start.
// Threads: one at a time. Owns: the file.
class Reporter {
 public:
  // Opens the file.
  // Errors: kUnavailable if it cannot be created.
  static ffdl::Result<std::unique_ptr<Reporter>> open(const Example& example,
                                                      const TrainOptions& options);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void started(const Task::Sizes& sizes, const std::string& segment);
  void spawned(const Subject& subject);
  void killed(const Subject& subject);
  void died(const Subject& subject, const std::string& how);
  void recovered(const Subject& subject, double recovery_ms);
  void progress(const Progress& progress);
  void failed(const ffdl::Status& status);
  void finished(const Summary& summary);

  double seconds() const;  // since the start

 private:
  class Impl;
  explicit Reporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace training
