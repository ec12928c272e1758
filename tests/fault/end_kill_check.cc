#include "fault/end_kill_check.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "ffdl/data/commit_log.h"
#include "membership/membership_records.h"
#include "support/session_diary.h"

namespace ffdl::end_kill {
namespace {

using membership::WorldRecord;
using Worlds = std::map<Revision, WorldRecord>;

// A process that is killed between a write and its line leaves a gap.
Worlds read_worlds(const std::string& folder) {
  Worlds worlds;
  for (const std::string& path : testing::files_of(folder, kWorldsPrefix)) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      const auto record = membership::parse_world(line.substr(line.find(' ') + 1));
      if (record.ok()) worlds.emplace(std::stoull(line), *record);
    }
  }
  return worlds;
}

class Check {
 public:
  Check(const JobOptions& options, const std::vector<EndedLife>& lives, const JobStatus& status)
      : options_(options), lives_(lives), status_(status), worlds_(read_worlds(options.folder)) {}

  JobFindings run() {
    if (!status_.completion) {
      fail("the record has no completion");
      return findings_;
    }
    check_worlds();
    for (const EndedLife& life : lives_) check_life(life);
    check_checkpoint();
    check_samples();
    const auto states = testing::compare_states(testing::files_of(options_.folder, "states-"));
    if (!states.are_equal) fail("two members had other states after the same step");
    return findings_;
  }

 private:
  template <class... Arguments>
  void fail(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    findings_.problems.push_back(fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  void check_worlds() {
    const WorldRecord* before = nullptr;
    const WorldRecord* lost = nullptr;  // the last record of the lineage before
    uint64_t completions = 0;
    for (const auto& [revision, record] : worlds_) {
      const bool was_complete = before != nullptr && before->completion;
      if (record.completion && !was_complete) ++completions;
      if (was_complete && record.completion != before->completion) {
        fail("revision {}: the completion has changed", revision);
      }
      if (was_complete && record.lineage != before->lineage) {
        fail("revision {}: lineage {} was begun after the end", revision, record.lineage);
      }
      if (before != nullptr && record.lineage != before->lineage) {
        check_loss(*before, record);
        lost = before;
      }
      if (lost != nullptr && record.phase == Phase::kActive) {
        if (record.lineage_base.lineage == 0) check_new_beginning(*lost, record);
        lost = nullptr;
      }
      findings_.lineages = std::max(findings_.lineages, record.lineage);
      before = &record;
    }
    if (completions > 1) fail("the completion was written {} times", completions);
    const bool is_known = before != nullptr && before->completion;
    if (is_known && before->completion != status_.completion) fail("the completion has changed");
  }

  // Forward recovery begins a lineage if no living member is a state holder.
  void check_loss(const WorldRecord& before, const WorldRecord& after) {
    if (options_.recovery == Recovery::kConsistent) return;
    for (const Member& carrier : before.state_holders) {
      for (const EndedLife& life : lives_) {
        if (life.id != carrier.id || life.incarnation != carrier.incarnation) continue;
        if (life.has(kFinished)) fail("lineage {}: {} had the state", after.lineage, life.id);
      }
    }
  }

  // The lineage began from nothing.
  void check_new_beginning(const WorldRecord& before, const WorldRecord& after) {
    if (before.state_holders.empty()) return;
    findings_.was_begun_anew = true;
    // Heartbeats carry the progress that the warning needs.
    const bool is_known = std::any_of(lives_.begin(), lives_.end(), [&](const EndedLife& life) {
      const Member member = {life.id, life.incarnation, ""};
      return life.trained_for > options_.lease &&
             membership::contains(before.state_holders, member);
    });
    // Consistent recovery goes back although a state holder lives, and gives another warning then.
    const bool is_told = is_logged("no member and no checkpoint has the state") ||
                         (options_.recovery == Recovery::kConsistent &&
                          is_logged("go back to step 0, as"));
    if (is_known && !is_told) {
      fail("lineage {}: the job was begun anew without a warning", after.lineage);
    }
  }

  bool is_logged(std::string_view words) const {
    for (const std::string& path : testing::files_of(options_.folder, kLogPrefix)) {
      std::ifstream file(path);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      if (text.find(words) != std::string::npos) return true;
    }
    return false;
  }

  void check_life(const EndedLife& life) {
    const std::string name = fmt::format("{} (pid {})", life.id, life.pid);
    if (!life.was_killed && !WIFEXITED(life.wait_status)) fail("{}: a signal ended it", name);
    const bool is_documented = life.was_killed || life.has(kFinished) ||
                               (life.has(kLeft) && life.was_asked_to_leave) ||
                               (life.has(kCancelled) && life.may_be_cancelled) ||
                               (life.has(kJobDone) && !options_.keeps_end());
    if (!is_documented) fail("{}: ended with {}", name, WEXITSTATUS(life.wait_status));
    if (life.is_late && life.applied > 0) fail("{}: trained after the end", name);
    if (!life.has(kFinished)) return;
    const StateLabel& end = *status_.completion;
    if (life.last_step == end.step && life.last_hash == end.hash) return;
    fail("{}: finished with state {:016x} of step {}, the job with {:016x} of step {}", name,
         life.last_hash, life.last_step, end.hash, end.step);
  }

  void check_checkpoint() {
    if (!options_.keeps_end()) return;
    const StateLabel& end = *status_.completion;
    const auto& last = status_.checkpoint;
    if (!last || last->step != end.step || last->lineage != end.lineage) {
      fail("there is no checkpoint of the last step");
    }
  }

  void check_samples() {
    CommitAuditOptions whole;
    whole.complete = true;
    const auto audit = audit_commit_logs(testing::files_of(options_.folder, "commits-"), whole);
    if (!audit.ok()) {
      fail("{}", audit.status().to_string());
      return;
    }
    for (const std::string& problem : audit->first_problems) fail("{}", problem);
    const bool is_whole = audit->missing == 0 && audit->repeated == 0 && audit->problems == 0 &&
                          audit->epochs == options_.epochs;
    if (is_whole) return;
    fail("{} epochs, {} samples missing, {} repeated", audit->epochs, audit->missing,
         audit->repeated);
  }

  const JobOptions& options_;
  const std::vector<EndedLife>& lives_;
  const JobStatus& status_;
  const Worlds worlds_;
  JobFindings findings_;
};

}  // namespace

bool EndedLife::has(ExitCode code) const {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code;
}

JobStatus last_status(const std::string& folder) {
  JobStatus status;
  const Worlds worlds = read_worlds(folder);
  if (worlds.empty()) return status;
  status.completion = worlds.rbegin()->second.completion;
  status.checkpoint = worlds.rbegin()->second.checkpoint;
  return status;
}

JobFindings check_job(const JobOptions& options, const std::vector<EndedLife>& lives,
                      const JobStatus& status) {
  return Check(options, lives, status).run();
}

}  // namespace ffdl::end_kill
