#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "comm/gpu/nccl/interface.h"
#include "ffdl/status.h"

namespace ffdl::comm {

// Loads NCCL on first use: ffdl is not linked with it.
// Threads: any. It stays loaded until the process ends, as its threads may live.
class NcclLibrary {
 public:
  // Loads the first of `places` that can be loaded. Errors: kUnimplemented (there is none, or it is
  // too old, or not NCCL: the message names what was tried).
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

// Returns where NCCL may be, the likeliest place first. If NCCL_ROOT is set, only there. Else a
// library that is loaded already (PyTorch brings one) or that the system's loader finds, then the
// package nvidia-nccl of the Python environment.
std::vector<std::string> nccl_places(const base::Environment& environment);

// Returns for example "2.30.7". Before 2.9 NCCL numbered its versions in another way.
std::string nccl_version_text(int version);

}  // namespace ffdl::comm
