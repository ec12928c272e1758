#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "nlc/device/interface.h"

namespace nlc {

// Where somebody may have put libraries of NVIDIA; empty where it is not set.
struct LibraryRoots {
  std::string cublas{};                 // CUBLAS_ROOT: the folder of cuBLAS
  std::string cudnn{};                  // CUDNN_ROOT
  std::vector<std::string> prefixes{};  // VIRTUAL_ENV, CONDA_PREFIX: of Python environments
};
LibraryRoots library_roots();  // of the environment

// Where each may lie, first the likeliest: in its root, and nowhere else if that is set; what is
// loaded already or where the system's loader looks; NVIDIA's packages in the Python environments.
std::vector<std::string> cublas_places(const LibraryRoots& roots);
std::vector<std::string> cudnn_places(const LibraryRoots& roots);

// cuBLAS and cuDNN, loaded when somebody first asks for them: nothing is linked with them.
// Threads: any. They stay loaded until the process ends.
class Libraries {
 public:
  // The first of each list that can be loaded. Errors: kUnimplemented: there is none, or it is
  // another version; says what was looked for.
  static ffdl::Result<Libraries> load(const std::vector<std::string>& blas_places,
                                      const std::vector<std::string>& dnn_places);
  static ffdl::Result<Libraries> load();  // from where library_roots() says

  const cublas::Functions& cublas() const { return cublas_; }
  const cudnn::Functions& cudnn() const { return cudnn_; }
  const std::string& versions() const { return versions_; }  // "cuBLAS 13.1.0, cuDNN 9.14.0"

 private:
  Libraries() = default;

  cublas::Functions cublas_{};
  cudnn::Functions cudnn_{};
  std::string versions_;
};

// Ok for kSuccess; else kInternal, with the words of the library.
ffdl::Status status_of(const Libraries& libraries, cublas::Code code, std::string_view doing);
ffdl::Status status_of(const Libraries& libraries, cudnn::Code code, std::string_view doing);

}  // namespace nlc
