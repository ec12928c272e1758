#include "nlc/device/libraries.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace nlc {
namespace {

using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;

constexpr const char* kCublasNames[] = {"libcublas.so.13", "libcublas.so.12"};
// The part of cuDNN that has softmax, and its dependencies. libcudnn.so.9, which has all names,
// ends the process when a part is missing.
constexpr const char* kCudnnName = "libcudnn_ops.so.9";
constexpr int kCublasMin = 12;
constexpr size_t kCudnnMin = 90000;  // 9.0.0

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void add_root(const std::string& root, const char* name, std::vector<std::string>& places) {
  places.push_back(root + "/lib/" + name);
  places.push_back(root + "/" + name);
}

// Adds the file in the packages of Python environments, for any Python version.
void add_packages(const std::vector<std::string>& prefixes, const std::string& file,
                  std::vector<std::string>& places) {
  for (const std::string& prefix : prefixes) {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& folder : std::filesystem::directory_iterator(prefix + "/lib", error)) {
      const std::string place = folder.path().string() + "/site-packages/nvidia/" + file;
      if (folder.path().filename().string().starts_with("python3") &&
          std::filesystem::exists(place, error)) {
        found.push_back(place);
      }
    }
    std::ranges::sort(found);
    places.insert(places.end(), found.begin(), found.end());
  }
}

// One library and the functions that are looked up in it.
class Library {
 public:
  Library(const char* title, const char* advice) : title_(title), advice_(advice) {}

  // Loads the first of `places` that can be loaded. It stays loaded.
  Status open(const std::vector<std::string>& places) {
    std::string tried;
    for (const std::string& place : places) {
      handle_ = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      place_ = place;
      if (handle_ != nullptr) return {};
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", dlerror());
    }
    return {StatusCode::kUnimplemented,
            fmt::format("load {}: it was not found: {}; {}", title_, tried, advice_)};
  }

  // Looks a function up. POSIX has dlsym return an object pointer, which is copied to a function
  // pointer.
  template <class Function>
  void find(const char* name, Function*& function) {
    void* const found = dlsym(handle_, name);
    static_assert(sizeof found == sizeof function);
    std::memcpy(&function, &found, sizeof found);
    if (found == nullptr && missing_ == nullptr) missing_ = name;
  }

  Status check_complete() const {
    if (missing_ == nullptr) return {};
    return {StatusCode::kUnimplemented,
            fmt::format("load {} '{}': it has no {}; {}", title_, place_, missing_, advice_)};
  }

  Status check_version(bool is_good, const std::string& version, const char* wanted) const {
    if (is_good) return {};
    return {StatusCode::kUnimplemented, fmt::format("load {} '{}': it is version {}, and {}; {}",
                                                    title_, place_, version, wanted, advice_)};
  }

 private:
  const char* title_;
  const char* advice_;
  const char* missing_ = nullptr;
  void* handle_ = nullptr;
  std::string place_;
};

Result<std::string> load_cublas(const std::vector<std::string>& places,
                                cublas::Functions& functions) {
  Library library("cuBLAS",
                  "install it (pip install nvidia-cublas, or NVIDIA's package libcublas), or set "
                  "CUBLAS_ROOT to the folder that has it");
  FFDL_RETURN_IF_ERROR(library.open(places));
  library.find("cublasGetProperty", functions.get_property);
  library.find("cublasGetStatusString", functions.get_status_string);
  library.find("cublasCreate_v2", functions.create);
  library.find("cublasDestroy_v2", functions.destroy);
  library.find("cublasSetStream_v2", functions.set_stream);
  library.find("cublasSgemm_v2", functions.sgemm);
  FFDL_RETURN_IF_ERROR(library.check_complete());
  int numbers[3] = {};
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(functions.get_property(static_cast<cublas::Property>(i), &numbers[i]));
  }
  std::string version = fmt::format("{}.{}.{}", numbers[0], numbers[1], numbers[2]);
  FFDL_RETURN_IF_ERROR(
      library.check_version(numbers[0] >= kCublasMin, version, "12 is the oldest supported"));
  return "cuBLAS " + version;
}

Result<std::string> load_cudnn(const std::vector<std::string>& places,
                               cudnn::Functions& functions) {
  Library library("cuDNN",
                  "install it (pip install nvidia-cudnn-cu13, or NVIDIA's package libcudnn9), or "
                  "set CUDNN_ROOT to the folder that has it");
  FFDL_RETURN_IF_ERROR(library.open(places));
  library.find("cudnnGetVersion", functions.get_version);
  library.find("cudnnGetErrorString", functions.get_error_string);
  library.find("cudnnCreate", functions.create);
  library.find("cudnnDestroy", functions.destroy);
  library.find("cudnnSetStream", functions.set_stream);
  library.find("cudnnCreateTensorDescriptor", functions.create_tensor);
  library.find("cudnnDestroyTensorDescriptor", functions.destroy_tensor);
  library.find("cudnnSetTensor4dDescriptor", functions.set_tensor);
  library.find("cudnnSoftmaxForward", functions.softmax_forward);
  library.find("cudnnSoftmaxBackward", functions.softmax_backward);
  FFDL_RETURN_IF_ERROR(library.check_complete());
  const size_t number = functions.get_version();
  // Since 9 the number has two more digits for the minor version than before.
  std::string version =
      number < 10'000
          ? fmt::format("{}.{}.{}", number / 1000, number % 1000 / 100, number % 100)
          : fmt::format("{}.{}.{}", number / 10'000, number % 10'000 / 100, number % 100);
  FFDL_RETURN_IF_ERROR(
      library.check_version(number >= kCudnnMin, version, "9 is the oldest supported"));
  return "cuDNN " + version;
}

}  // namespace

LibraryRoots library_roots() {
  LibraryRoots roots{.cublas = variable("CUBLAS_ROOT"), .cudnn = variable("CUDNN_ROOT")};
  for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (std::string prefix = variable(name); !prefix.empty()) {
      roots.prefixes.push_back(std::move(prefix));
    }
  }
  return roots;
}

std::vector<std::string> cublas_places(const LibraryRoots& roots) {
  std::vector<std::string> places;
  if (!roots.cublas.empty()) {
    for (const char* const name : kCublasNames) add_root(roots.cublas, name, places);
    return places;
  }
  for (const char* const name : kCublasNames) places.emplace_back(name);
  // NVIDIA's packages have a folder for each CUDA version since 13, and one for each library
  // before.
  add_packages(roots.prefixes, std::string("cu13/lib/") + kCublasNames[0], places);
  add_packages(roots.prefixes, std::string("cublas/lib/") + kCublasNames[1], places);
  return places;
}

std::vector<std::string> cudnn_places(const LibraryRoots& roots) {
  std::vector<std::string> places;
  if (!roots.cudnn.empty()) {
    add_root(roots.cudnn, kCudnnName, places);
    return places;
  }
  places.emplace_back(kCudnnName);
  add_packages(roots.prefixes, std::string("cudnn/lib/") + kCudnnName, places);
  return places;
}

// cuBLAS first: cuDNN needs it, and finds it if it is loaded.
Result<Libraries> Libraries::load(const std::vector<std::string>& blas_places,
                                  const std::vector<std::string>& dnn_places) {
  Libraries loaded;
  FFDL_ASSIGN_OR_RETURN(const std::string blas, load_cublas(blas_places, loaded.cublas_));
  FFDL_ASSIGN_OR_RETURN(const std::string dnn, load_cudnn(dnn_places, loaded.cudnn_));
  loaded.versions_ = blas + ", " + dnn;
  return loaded;
}

Result<Libraries> Libraries::load() {
  const LibraryRoots roots = library_roots();
  return load(cublas_places(roots), cudnn_places(roots));
}

Status status_of(const Libraries& libraries, cublas::Code code, std::string_view doing) {
  if (code == cublas::Code::kSuccess) return {};
  return {StatusCode::kInternal, fmt::format("{}: cuBLAS reports '{}'; check what else uses the "
                                             "GPU's memory, and the kernel's log for the GPU",
                                             doing, libraries.cublas().get_status_string(code))};
}

Status status_of(const Libraries& libraries, cudnn::Code code, std::string_view doing) {
  if (code == cudnn::Code::kSuccess) return {};
  return {StatusCode::kInternal, fmt::format("{}: cuDNN reports '{}'; check what else uses the "
                                             "GPU's memory, and the kernel's log for the GPU",
                                             doing, libraries.cudnn().get_error_string(code))};
}

}  // namespace nlc
