#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "support/small_model.h"

// Records the steps of a session's members in files that outlive a killed process, and compares
// them.
namespace ffdl::testing {

// Writes stable steps only, because another member may take back any other step.
struct Diary {
  std::unique_ptr<CommitLog> commits;
  std::ofstream states;  // a line for each step: "lineage.step hash", the state after that step
  std::map<uint64_t, uint64_t> hashes;  // hashes of states, by step
  uint64_t lineage = 0;                 // lineage of these steps
};

class DiaryModel final : public SmallModel {
 public:
  DiaryModel(size_t elements, Diary& diary) : SmallModel(elements), diary_(diary) {}
  void on_world(const World& world) override {
    if (world.lineage != diary_.lineage) diary_.hashes.clear();
    diary_.lineage = world.lineage;
  }
  void apply() override {
    SmallModel::apply();
    ++applied_;
  }
  // Returns the number of steps that this process applied, in all its worlds.
  uint64_t applied() const { return applied_; }

 private:
  Diary& diary_;
  uint64_t applied_ = 0;
};

// Opens the diary of a process. `suffix` names it: "NUMBER-PID".
inline Result<Diary> open_diary(const std::string& folder, const std::string& suffix,
                                const LedgerOptions& data) {
  FFDL_ASSIGN_OR_RETURN(auto commits, CommitLog::open(folder + "/commits-" + suffix, data));
  return Diary{std::move(commits), std::ofstream(folder + "/states-" + suffix), {}, 0};
}

// Makes a ledger that writes each stable step into the diary.
inline Result<std::unique_ptr<SampleLedger>> make_ledger(const LedgerOptions& options,
                                                         Diary& diary) {
  LedgerMemberOptions member;
  member.on_stable = [&diary](const CommittedStep& step) {
    diary.commits->write(step);
    const auto hash = diary.hashes.find(step.step);
    if (hash == diary.hashes.end()) return;
    diary.states << fmt::format("{}.{} {:016x}\n", diary.lineage, step.step, hash->second)
                 << std::flush;
    diary.hashes.erase(hash);
  };
  return make_session_ledger(options, member);
}

// The result of reading the states of all members.
struct States {
  bool are_equal = true;  // all members with a state after the same step have the same one
  uint64_t lineages = 0;
};

inline States compare_states(const std::vector<std::string>& paths) {
  States all;
  std::map<std::string, std::string> states;  // by lineage and step
  for (const std::string& path : paths) {
    std::ifstream file(path);
    // Skips the unfinished last line of a killed process.
    for (std::string line; std::getline(file, line) && !file.eof();) {
      const size_t space = line.find(' ');
      const std::string hash = line.substr(space);
      all.lineages = std::max<uint64_t>(all.lineages, std::stoull(line));
      const auto [known, is_new] = states.emplace(line.substr(0, space), hash);
      if (is_new || known->second == hash) continue;
      fmt::print("two states of step {}:{} and{}\n", known->first, known->second, hash);
      all.are_equal = false;
    }
  }
  return all;
}

// Returns the paths of the folder's files whose names begin with `prefix`.
inline std::vector<std::string> files_of(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(prefix)) paths.push_back(entry.path());
  }
  return paths;
}

// Returns the number after `name` on the command line.
inline uint64_t argument(int argc, char** argv, std::string_view name, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) return std::stoull(argv[i + 1]);
  }
  return otherwise;
}

}  // namespace ffdl::testing
