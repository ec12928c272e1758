#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "nlc/device/interface.h"

namespace nlc {

// Folders that may hold NVIDIA's libraries; empty if not set.
struct LibraryRoots {
  std::string cublas{};                 // CUBLAS_ROOT: the folder of cuBLAS
  std::string cudnn{};                  // CUDNN_ROOT
  std::vector<std::string> prefixes{};  // VIRTUAL_ENV, CONDA_PREFIX: of Python environments
};
LibraryRoots library_roots();  // from the environment

// Return the candidate paths of each library, the likeliest first. If the root is set, only the
// root is a candidate. Otherwise these are the library that is loaded or that the system's loader
// finds, then NVIDIA's packages in the Python environments.
std::vector<std::string> cublas_places(const LibraryRoots& roots);
std::vector<std::string> cudnn_places(const LibraryRoots& roots);

// cuBLAS and cuDNN, loaded at first use: no program is linked with them.
// Threads: any. They stay loaded until the process ends.
class Libraries {
 public:
  // Loads the first of each list that can be loaded. Errors: kUnimplemented if there is none, or it
  // is another version; the message names the candidates.
  static ffdl::Result<Libraries> load(const std::vector<std::string>& blas_places,
                                      const std::vector<std::string>& dnn_places);
  static ffdl::Result<Libraries> load();  // uses library_roots()

  const cublas::Functions& cublas() const { return cublas_; }
  const cudnn::Functions& cudnn() const { return cudnn_; }
  const std::string& versions() const { return versions_; }  // "cuBLAS 13.1.0, cuDNN 9.14.0"

 private:
  Libraries() = default;

  cublas::Functions cublas_{};
  cudnn::Functions cudnn_{};
  std::string versions_;
};

// Returns OK for kSuccess, else kInternal with the library's message.
ffdl::Status status_of(const Libraries& libraries, cublas::Code code, std::string_view doing);
ffdl::Status status_of(const Libraries& libraries, cudnn::Code code, std::string_view doing);

}  // namespace nlc
