#include "wire/json_record.h"

#include "base/errors.h"

namespace ffdl::wire {

Status corrupt_record(std::string_view what, std::string_view why) {
  return base::make_error(StatusCode::kCorrupt,
                          "read {}: {}; something else wrote it, or another version of ffdl: use "
                          "another job name, or remove the job's keys",
                          what, why);
}

Status RecordReader::outcome(std::string_view what) const {
  if (!failed()) return {};
  return corrupt_record(what, fmt::format("'{}' is missing or wrong", why_));
}

}  // namespace ffdl::wire
