#include "comm/gpu/nccl/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/errors.h"

namespace ffdl::comm {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr std::string_view kDoing = "load NCCL";
constexpr int kVersionMin = 21400;  // the first whose communicators never block

// Finds a function through an object pointer, as POSIX defines dlsym.
template <class Function>
bool find(void* library, const char* name, Function*& function) {
  void* const found = dlsym(library, name);
  static_assert(sizeof found == sizeof function);
  std::memcpy(&function, &found, sizeof found);
  return found != nullptr;
}

// Returns the name of a missing required function, or null if all exist.
const char* find_required(void* library, nccl::Functions& functions) {
  const char* missing = nullptr;
  const auto require = [&](const char* name, auto*& function) {
    if (!find(library, name, function) && missing == nullptr) missing = name;
  };
  require("ncclGetVersion", functions.get_version);
  require("ncclGetUniqueId", functions.get_unique_id);
  require("ncclCommInitRankConfig", functions.init_rank);
  require("ncclCommGetAsyncError", functions.get_async_error);
  require("ncclCommFinalize", functions.finalize);
  require("ncclCommDestroy", functions.destroy);
  require("ncclCommAbort", functions.abort);
  require("ncclGetErrorString", functions.get_error_string);
  require("ncclGetLastError", functions.get_last_error);
  require("ncclAllReduce", functions.all_reduce);
  require("ncclReduceScatter", functions.reduce_scatter);
  require("ncclReduce", functions.reduce);
  require("ncclAllGather", functions.all_gather);
  require("ncclBroadcast", functions.broadcast);
  require("ncclSend", functions.send);
  require("ncclRecv", functions.recv);
  require("ncclGroupStart", functions.group_start);
  require("ncclGroupEnd", functions.group_end);
  return missing;
}

// Finds the functions of versions after the least one.
void find_later_ones(void* library, nccl::Functions& functions) {
  find(library, "ncclCommInitRankScalable", functions.init_rank_scalable);
  find(library, "ncclCommShrink", functions.shrink);
  find(library, "ncclCommRevoke", functions.revoke);
  find(library, "ncclCommGetUniqueId", functions.get_grow_id);
  find(library, "ncclCommGrow", functions.grow);
  find(library, "ncclCommSuspend", functions.suspend);
  find(library, "ncclCommResume", functions.resume);
  find(library, "ncclCommMemStats", functions.memory_stats);
}

// Adds libnccl.so.2 from the packages of Python environments, whatever their Python version.
void add_packages(const std::string& prefix, std::vector<std::string>& places) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator(prefix + "/lib", error)) {
    const std::string name = folder.path().filename().string();
    const std::string place = folder.path().string() + "/site-packages/nvidia/nccl/lib/" + kName;
    if (name.starts_with("python3") && std::filesystem::exists(place, error)) {
      found.push_back(place);
    }
  }
  std::ranges::sort(found);
  places.insert(places.end(), found.begin(), found.end());
}

Status check_version(const std::string& path, int version) {
  if (version >= kVersionMin) return {};
  return base::make_error(StatusCode::kUnimplemented,
                          "{} '{}': it is version {}, but calls with a deadline need {} or newer; "
                          "install a newer version, or set NCCL_ROOT to the folder of one",
                          kDoing, path, nccl_version_text(version), nccl_version_text(kVersionMin));
}

// Returns the file that a function came from, as the requested name may have no folder.
std::string path_of(nccl::Code (*function)(int*), const std::string& otherwise) {
  Dl_info found{};
  void* address = nullptr;
  std::memcpy(&address, &function, sizeof address);
  if (dladdr(address, &found) == 0 || found.dli_fname == nullptr) return otherwise;
  return found.dli_fname;
}

}  // namespace

std::string nccl_version_text(int version) {
  const int major = version < 10'000 ? version / 1000 : version / 10'000;
  const int minor = version < 10'000 ? version % 1000 / 100 : version % 10'000 / 100;
  return fmt::format("{}.{}.{}", major, minor, version % 100);
}

std::vector<std::string> nccl_places(const base::Environment& environment) {
  if (!environment.nccl_root.empty()) {
    return {environment.nccl_root + "/lib/" + kName, environment.nccl_root + "/" + kName};
  }
  std::vector<std::string> places = {kName};
  for (const std::string& prefix : environment.python_prefixes) add_packages(prefix, places);
  return places;
}

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::load(
    const std::vector<std::string>& places) {
  std::string tried;
  for (const std::string& place : places) {
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", dlerror());
      continue;
    }
    auto loaded = std::unique_ptr<NcclLibrary>(new NcclLibrary());
    const char* const missing = find_required(library, loaded->functions_);
    if (loaded->functions_.get_version == nullptr) {
      return base::make_error(StatusCode::kUnimplemented,
                              "{} '{}': it has no ncclGetVersion, so it is another library; set "
                              "NCCL_ROOT to the folder of NCCL",
                              kDoing, place);
    }
    loaded->path_ = path_of(loaded->functions_.get_version, place);
    if ((*loaded)->get_version(&loaded->version_) != nccl::Code::kSuccess) loaded->version_ = 0;
    FFDL_RETURN_IF_ERROR(check_version(loaded->path_, loaded->version_));
    if (missing != nullptr) {
      return base::make_error(StatusCode::kUnimplemented,
                              "{} '{}': version {} has no {}; install NVIDIA's own build of it, or "
                              "set NCCL_ROOT to the folder of one",
                              kDoing, loaded->path_, nccl_version_text(loaded->version_), missing);
    }
    find_later_ones(library, loaded->functions_);
    return std::shared_ptr<const NcclLibrary>(std::move(loaded));
  }
  return base::make_error(StatusCode::kUnimplemented,
                          "{}: {} was not found: {}; install it (pip install nvidia-nccl-cu13, or "
                          "NVIDIA's package libnccl2), or set NCCL_ROOT to the folder that has it",
                          kDoing, kName, tried);
}

}  // namespace ffdl::comm
