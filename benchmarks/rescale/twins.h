#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/store_folder.h"
#include "benchmarks/rescale/trainer.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// Processes of this program, usually two, in the role "twin" (FOLDER RANK LAYERS ROWS RANKS), which
// train one model in several ways. Threads: one. Owns: the processes, and the folder with their
// store.
class Twins {
 public:
  static Result<std::unique_ptr<Twins>> start(const Shape& shape, int ranks = 2);
  ~Twins();
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  // Makes all of them train a piece in a way `how` that the role knows. Returns the seconds of the
  // first rank.
  Result<double> train(const std::string& how);

 private:
  explicit Twins(std::unique_ptr<StoreFolder> store) : store_(std::move(store)) {}

  const std::unique_ptr<StoreFolder> store_;
  std::vector<std::unique_ptr<Resident>> ranks_;
};

}  // namespace ffdl::bench
