#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "comm/nccl_interface.h"
#include "ffdl/status.h"

namespace ffdl::comm {

// NCCL, loaded when somebody first asks for it: ffdl is not linked with it.
// Threads: any. It stays loaded until the process ends, as threads of it may live.
class NcclLibrary {
 public:
  // The first of `places` that can be loaded. Errors: kUnimplemented (there is none, or it is too
  // old, or not NCCL: says what was looked for).
  static Result<std::shared_ptr<const NcclLibrary>> load(const std::vector<std::string>& places);

  const nccl::Functions& functions() const { return functions_; }
  const nccl::Functions* operator->() const { return &functions_; }
  int version() const { return version_; }  // 23007 is 2.30.7
  const std::string& path() const { return path_; }

 private:
  NcclLibrary() = default;

  nccl::Functions functions_{};
  int version_ = 0;
  std::string path_;
};

// Where NCCL may lie, first the likeliest: in NCCL_ROOT, and nowhere else if that is set; what is
// loaded already (PyTorch brings one) or where the system's loader looks; the package nvidia-nccl
// of the Python environment.
std::vector<std::string> nccl_places(const base::Environment& environment);

// "2.30.7"; before 2.9 NCCL counted otherwise.
std::string nccl_version_text(int version);

}  // namespace ffdl::comm
