#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "ffdl/cluster/autoscaler.h"

// The records that jobs and the autoscaler write to the store.
namespace ffdl::cluster {

// The jobs' own records begin with "ffdl/", so that no job name collides with these keys.
inline constexpr std::string_view kPrefix = "ffdl-jobs/";
inline constexpr std::string_view kAutoscaler = "ffdl-jobs/autoscaler";  // holder: its lease
inline constexpr std::string_view kOffers = "ffdl-jobs/offers/";         // then the node's name
inline constexpr std::string_view kRequests = "ffdl-jobs/requests/";     // then the job's, by lease
// All answers in one record, so that a decision from outdated facts changes nothing.
inline constexpr std::string_view kAnswers = "ffdl-jobs/answers";

// The measured speeds of each job (autoscaler.h), then its name; by lease. They have a prefix of
// their own, so that a report does not cause a new decision.
inline constexpr std::string_view kSpeeds = "ffdl-speeds/";

inline std::string key_of(std::string_view folder, std::string_view name) {
  return fmt::format("{}{}", folder, name);
}

// A request. `place` orders jobs by arrival: the revision of the first record. 0: this one is the
// first.
struct RequestRecord {
  JobRequest request{};
  Revision place = 0;
};

// An answer to the request of that place: one to an older life of the job does not apply to this
// one.
struct Answer {
  Revision place = 0;
  JobAllocation allocation{};

  bool operator==(const Answer&) const = default;
};

// Checks a request before it is stored, and after it was read. One that cannot be planned would
// hold up the decision for all jobs. Errors: kInvalidArgument.
Status check_queued(const JobRequest& request);

std::string encode(const RequestRecord& record);
std::string encode(const std::vector<Answer>& answers);
// Parses a record; the job's name is that of the key. Errors: kCorrupt.
Result<RequestRecord> parse_request(std::string_view text);
Result<std::vector<Answer>> parse_answers(std::string_view text);
std::string encode(std::span<const StepMeasurement> speeds);
Result<std::vector<StepMeasurement>> parse_speeds(std::string_view text);

}  // namespace ffdl::cluster
