#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "ffdl/autoscaler.h"
#include "ffdl/job_link.h"

// What jobs and the autoscaler write to the store.
namespace ffdl::jobs {

// Jobs' own records begin with "ffdl/", so that no name of a job meets these.
inline constexpr std::string_view kPrefix = "ffdl-jobs/";
inline constexpr std::string_view kAutoscaler = "ffdl-jobs/autoscaler";  // who it is, by its lease
inline constexpr std::string_view kOffers = "ffdl-jobs/offers/";         // then the node's name
inline constexpr std::string_view kDemands = "ffdl-jobs/demands/";       // then the job's, by lease
// Of all jobs in one record, so that a decision on what is not so any more changes nothing.
inline constexpr std::string_view kAnswers = "ffdl-jobs/answers";

// How fast each job has been (job_link.h), then its name; by lease. Apart from the others, so that
// nothing is decided anew at each report.
inline constexpr std::string_view kSpeeds = "ffdl-speeds/";

inline std::string key_of(std::string_view folder, std::string_view name) {
  return fmt::format("{}{}", folder, name);
}

// `place` orders jobs by arrival: the revision of the first record. 0: this one is the first.
struct DemandRecord {
  JobDemand demand{};
  Revision place = 0;
};

// To the demand of that place: an answer to an older life of the job is none to this one.
struct Answer {
  Revision place = 0;
  JobAllocation allocation{};

  bool operator==(const Answer&) const = default;
};

std::string encode(const DemandRecord& record);
std::string encode(const std::vector<Answer>& answers);
// The job's name is that of the key. Errors: kCorrupt.
Result<DemandRecord> parse_demand(std::string_view text);
Result<std::vector<Answer>> parse_answers(std::string_view text);
std::string encode(std::span<const MeasuredSpeed> speeds);
Result<std::vector<MeasuredSpeed>> parse_speeds(std::string_view text);

}  // namespace ffdl::jobs
