#include "benchmarks/harness/script.h"

#include <fmt/format.h>

#include <filesystem>

#include "benchmarks/harness/source_folder.h"

namespace ffdl::bench {
namespace {

const std::string kPython = kSourceFolder + std::string("/build/bench/peers/bin/python");
const std::string kScripts = kSourceFolder + std::string("/benchmarks/peers/");

}  // namespace

Result<std::unique_ptr<Resident>> start_script(std::vector<std::string> words) {
  if (!std::filesystem::exists(kPython)) {
    return Status(
        StatusCode::kNotFound,
        fmt::format("start the peers' Python '{}': no such file; run benchmarks/peers/install.sh",
                    kPython));
  }
  words[0] = kScripts + words[0];
  words.insert(words.begin(), kPython);
  FFDL_ASSIGN_OR_RETURN(auto script, Resident::start(words));
  FFDL_ASSIGN_OR_RETURN(const std::string ready, script->ask("", std::chrono::seconds(120)));
  if (ready == "ready") return script;
  return Status(StatusCode::kInternal, fmt::format("start '{}': it said '{}'", words[1], ready));
}

}  // namespace ffdl::bench
