#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/membership.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// A job as its records in the store show it, for those who are no members of it.
namespace ffdl {

struct MemberStatus {
  Member member{};
  int rank = -1;            // in the newest world; -1: it is not in it
  bool is_alive = false;    // its lease has not ended
  bool is_leaving = false;  // it has asked to
  uint64_t generation = 0;  // what it has begun last: this step of that generation
  uint64_t step = 0;
};

struct JobStatus {
  World world{};  // the newest, seen by nobody (rank -1); generation 0: none was formed yet
  uint64_t active_generation = 0;  // of the last world that was active
  uint64_t term = 0;               // counts the leaders
  std::optional<Member> leader{};
  std::optional<CheckpointPointer> checkpoint{};  // the newest
  // Those in the world, by rank; then the others who have joined, by id.
  std::vector<MemberStatus> members{};
};

// Only reads. Nobody has joined: generation 0 and no members.
// Errors: kCorrupt (the record of the world cannot be read), and those of Store.
FFDL_API Result<JobStatus> read_job(Store& store, std::string_view job);

// The last life of a member, 0 if it had none: once its process has ended and before another is
// started under the same id, this is whose death report_death() should tell.
// Errors: kCorrupt, and those of Store.
FFDL_API Result<uint64_t> last_incarnation(Store& store, std::string_view job, std::string_view id);

}  // namespace ffdl
