#pragma once

#include <memory>
#include <string>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/store_folder.h"
#include "benchmarks/rescale/trainer.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// Two processes of this program in the role "twin" (FOLDER RANK LAYERS ROWS), which train one model
// in two ways. Threads: one. Owns: the processes, and the folder with their store.
class Twins {
 public:
  static Result<std::unique_ptr<Twins>> start(const Shape& shape);
  ~Twins();
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  // Both train a piece `how` the role knows; the seconds of the first rank.
  Result<double> train(const std::string& how);

 private:
  explicit Twins(std::unique_ptr<StoreFolder> store) : store_(std::move(store)) {}

  const std::unique_ptr<StoreFolder> store_;
  std::unique_ptr<Resident> ranks_[2];
};

}  // namespace ffdl::bench
