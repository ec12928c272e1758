#include "cluster/plan/job_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "base/errors.h"
#include "cluster/plan/csv.h"
#include "cluster/plan/limits.h"
#include "cluster/plan/profile_sizes.h"

// Reads job files. JSON is a part of YAML and is read as such, so every value of both has a line
// and column.
namespace ffdl::cluster {
namespace {

constexpr std::string_view kProfileFormat = "ffdl-profile-1";
constexpr std::string_view kJobKeys =
    "name, scaling, sizes, profile, min_workers, max_workers, min_batch, max_batch, device_memory, "
    "may_wait, current_workers, switch_cost";

class JobFile {
 public:
  explicit JobFile(std::string path) : path_(std::move(path)) {}

  Result<std::vector<JobRequest>> read() const {
    return read<std::vector<JobRequest>>(&JobFile::read_root);
  }

 private:
  template <class T>
  Result<T> read(Result<T> (JobFile::*parse)(const YAML::Node&) const) const {
    try {
      return (this->*parse)(YAML::LoadFile(path_));
    } catch (const YAML::BadFile&) {
      return base::make_error(StatusCode::kNotFound, "read '{}': no such file; check the path",
                              path_);
    } catch (const YAML::Exception& failure) {
      return error_at(failure.mark, failure.msg + "; correct the syntax");
    }
  }

  std::string where(const YAML::Mark& mark) const {
    return fmt::format("'{}': line {}, column {}", path_, std::max(mark.line, 0) + 1,
                       std::max(mark.column, 0) + 1);
  }
  Status error_at(const YAML::Mark& mark, std::string_view what) const {
    return base::invalid_argument("read {}: {}", where(mark), what);
  }
  Status error_at(const YAML::Node& node, std::string_view what) const {
    return error_at(node.Mark(), what);
  }

  Result<double> number(const YAML::Node& node, double least) const {
    const auto value = node.IsScalar() ? parse_number(node.Scalar()) : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < least) {
      return error_at(node, fmt::format("not a number from {} on; write one", least));
    }
    if (*value > kNumberMax) {
      return error_at(node, fmt::format("more than {:g}; write a smaller number", kNumberMax));
    }
    return *value;
  }

  Result<int> integer(const YAML::Node& node, int least) const {
    const auto value = node.IsScalar() ? parse_integer(node.Scalar()) : std::nullopt;
    if (!value || *value < least || *value > INT32_MAX) {
      return error_at(node, fmt::format("not a whole number from {} on; write one", least));
    }
    return static_cast<int>(*value);
  }

  Result<int16_t> few(const YAML::Node& node) const {
    FFDL_ASSIGN_OR_RETURN(const int value, integer(node, 1));
    if (value > INT16_MAX) return error_at(node, fmt::format("more than {}", INT16_MAX));
    return static_cast<int16_t>(value);
  }

  Result<int64_t> bytes(const YAML::Node& node) const {
    const auto value = node.IsScalar() ? parse_integer(node.Scalar()) : std::nullopt;
    if (!value || *value < 1) return error_at(node, "not a number of bytes; write a whole one");
    return *value;
  }

  Result<bool> truth(const YAML::Node& node) const {
    bool value = false;
    if (!YAML::convert<bool>::decode(node, value)) {
      return error_at(node, "neither true nor false; write one of them");
    }
    return value;
  }

  // Calls `take` for each entry of a map. It returns true if it knows the key.
  Status for_each(
      const YAML::Node& map, std::string_view what, std::string_view keys,
      const std::function<Result<bool>(const std::string&, const YAML::Node&)>& take) const {
    if (!map.IsMap()) return error_at(map, fmt::format("{} is not a map; write {}", what, keys));
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      FFDL_ASSIGN_OR_RETURN(const bool known, take(key, entry.second));
      if (!known) {
        return error_at(entry.first, fmt::format("{} has no '{}'; write {}", what, key, keys));
      }
    }
    return {};
  }

  Result<SizeOption> read_size(const YAML::Node& node) const {
    SizeOption size;
    Status read = for_each(node, "a size", "workers, scaling, batch, nodes_max, per_node_max",
                           [&](const std::string& key, const YAML::Node& value) -> Result<bool> {
                             if (key == "workers") {
                               FFDL_ASSIGN_OR_RETURN(size.workers, integer(value, 1));
                             } else if (key == "scaling") {
                               FFDL_ASSIGN_OR_RETURN(size.value, number(value, 0));
                             } else if (key == "batch") {
                               FFDL_ASSIGN_OR_RETURN(size.batch, integer(value, 1));
                             } else if (key == "nodes_max") {
                               FFDL_ASSIGN_OR_RETURN(size.nodes_max, few(value));
                             } else if (key == "per_node_max") {
                               FFDL_ASSIGN_OR_RETURN(size.per_node_max, few(value));
                             } else {
                               return false;
                             }
                             return true;
                           });
    if (!read.ok()) return read;
    if (size.workers == 0) return error_at(node, "a size has no 'workers'; add 'workers' to it");
    return size;
  }

  Status read_sizes(const YAML::Node& list, bool plain, std::vector<SizeOption>& sizes) const {
    if (!list.IsSequence()) return error_at(list, "not a list; write [first, second]");
    std::set<std::tuple<int, int16_t, int16_t>> listed;
    for (const YAML::Node& node : list) {
      SizeOption size;
      if (plain) {
        size.workers = static_cast<int>(sizes.size()) + 1;
        FFDL_ASSIGN_OR_RETURN(size.value, number(node, 0));
      } else {
        FFDL_ASSIGN_OR_RETURN(size, read_size(node));
      }
      if (!listed.insert({size.workers, size.nodes_max, size.per_node_max}).second) {
        return error_at(
            node, fmt::format("{} workers are listed twice; list each size once", size.workers));
      }
      sizes.push_back(size);
    }
    return {};
  }

  // Returns one entry that must exist.
  Result<YAML::Node> required(const YAML::Node& map, const char* key) const {
    const YAML::Node value = map[key];
    if (value.IsDefined()) return value;
    return error_at(map,
                    fmt::format("no '{}' in a profile; measure again with 'ffdl profile'", key));
  }

  Result<FiledPoint> read_point(const YAML::Node& node) const {
    if (!node.IsMap()) return error_at(node, "a point of a profile is not a map; measure again");
    FiledPoint point;
    FFDL_ASSIGN_OR_RETURN(const YAML::Node workers, required(node, "workers"));
    FFDL_ASSIGN_OR_RETURN(point.step.workers, integer(workers, 1));
    FFDL_ASSIGN_OR_RETURN(const YAML::Node batch, required(node, "batch"));
    FFDL_ASSIGN_OR_RETURN(point.step.batch, integer(batch, 1));
    FFDL_ASSIGN_OR_RETURN(const YAML::Node step_s, required(node, "step_s"));
    FFDL_ASSIGN_OR_RETURN(point.step.step_s, number(step_s, 0));
    if (point.step.step_s <= 0) return error_at(step_s, "a step of 0 s; measure again");
    FFDL_ASSIGN_OR_RETURN(const YAML::Node share, required(node, "communication_share"));
    FFDL_ASSIGN_OR_RETURN(const double communication_share, number(share, 0));
    if (communication_share > 1) return error_at(share, "a share above 1; measure again");
    point.step.sync_s = point.step.step_s * communication_share;
    // memory_bytes is the former name, from when a profile's memory was one of either kind; it is
    // read as device_memory_bytes.
    const bool is_named = node["device_memory_bytes"].IsDefined();
    const YAML::Node memory = node[is_named ? "device_memory_bytes" : "memory_bytes"];
    if (memory.IsDefined() && !memory.IsNull()) {
      FFDL_ASSIGN_OR_RETURN(const double amount, number(memory, 0));
      if (amount > 0x1p62) return error_at(memory, "more bytes than are possible; measure again");
      point.device_memory_bytes = static_cast<int64_t>(amount);
    }
    return point;
  }

  // Reads the output of 'ffdl profile'. Unknown keys are ignored.
  Result<FiledProfile> read_profile(const YAML::Node& root) const {
    const YAML::Node format = root.IsMap() ? root["format"] : YAML::Node();
    if (!format.IsDefined() || !format.IsScalar() || format.Scalar() != kProfileFormat) {
      return error_at(root,
                      fmt::format("not a profile, as its 'format' is not '{}'; write one with "
                                  "'ffdl profile'",
                                  kProfileFormat));
    }
    FiledProfile profile;
    FFDL_ASSIGN_OR_RETURN(const YAML::Node batch, required(root, "global_batch"));
    FFDL_ASSIGN_OR_RETURN(profile.batch, integer(batch, 1));
    FFDL_ASSIGN_OR_RETURN(const YAML::Node points, required(root, "points"));
    if (!points.IsSequence() || points.size() == 0) {
      return error_at(points, "no list of points; measure one at least");
    }
    for (const YAML::Node& point : points) {
      FFDL_ASSIGN_OR_RETURN(profile.points.emplace_back(), read_point(point));
    }
    return profile;
  }

  // Reads a profile as the job itself.
  Result<std::vector<JobRequest>> read_profiled_job(const YAML::Node& root) const {
    FFDL_ASSIGN_OR_RETURN(const FiledProfile profile, read_profile(root));
    FFDL_ASSIGN_OR_RETURN(const YAML::Node name, required(root, "job"));
    if (!name.IsScalar()) return error_at(name, "not a name; measure again");
    return std::vector{JobRequest{
        .name = name.Scalar(), .sizes = sizes_of(profile, {}), .source = where(root.Mark())}};
  }

  // Checks the keys that need a profile.
  Status check_limits(const YAML::Node& job, bool has_profile, const ProfileLimits& limits) const {
    const bool any = limits.min_batch > 0 || limits.max_batch > 0 || limits.device_memory > 0;
    if (!has_profile && any) {
      return error_at(job, "min_batch, max_batch and device_memory need a profile; add 'profile'");
    }
    if (limits.max_batch > 0 && limits.max_batch < limits.min_batch) {
      return error_at(job, "max_batch is smaller than min_batch; swap their values");
    }
    if (has_profile && limits.max_workers >= UINT16_MAX) {
      return error_at(job, fmt::format("max_workers is {}; write at most {}", limits.max_workers,
                                       UINT16_MAX - 1));
    }
    return {};
  }

  Result<JobRequest> read_job(const YAML::Node& node) const {
    JobRequest job;
    job.source = where(node.Mark());
    int min_workers = 1, max_workers = INT32_MAX;
    std::optional<FiledProfile> profile;
    ProfileLimits limits;
    Status read = for_each(node, "a job", kJobKeys,
                           [&](const std::string& key, const YAML::Node& value) -> Result<bool> {
                             if (key == "name" && value.IsScalar()) {
                               job.name = value.Scalar();
                             } else if (key == "scaling" || key == "sizes") {
                               if (!job.sizes.empty())
                                 return error_at(value,
                                                 "the job lists its sizes twice; write either "
                                                 "'scaling' or 'sizes', and only once");
                               FFDL_RETURN_IF_ERROR(read_sizes(value, key == "scaling", job.sizes));
                             } else if (key == "profile") {
                               FFDL_ASSIGN_OR_RETURN(profile, read_profile_of(value));
                             } else if (key == "min_batch") {
                               FFDL_ASSIGN_OR_RETURN(limits.min_batch, integer(value, 1));
                             } else if (key == "max_batch") {
                               FFDL_ASSIGN_OR_RETURN(limits.max_batch, integer(value, 1));
                             } else if (key == "device_memory") {
                               FFDL_ASSIGN_OR_RETURN(limits.device_memory, bytes(value));
                             } else if (key == "min_workers") {
                               FFDL_ASSIGN_OR_RETURN(min_workers, integer(value, 1));
                             } else if (key == "max_workers") {
                               FFDL_ASSIGN_OR_RETURN(max_workers, integer(value, 1));
                             } else if (key == "may_wait") {
                               FFDL_ASSIGN_OR_RETURN(job.may_wait, truth(value));
                             } else if (key == "current_workers") {
                               FFDL_ASSIGN_OR_RETURN(job.current_workers, integer(value, 0));
                             } else if (key == "switch_cost") {
                               FFDL_ASSIGN_OR_RETURN(job.switch_cost, number(value, 0));
                             } else {
                               return false;
                             }
                             return true;
                           });
    if (!read.ok()) return read;
    if (job.name.empty()) return error_at(node, "a job without a name; write one");
    if (max_workers < INT32_MAX) limits.max_workers = max_workers;
    FFDL_RETURN_IF_ERROR(check_limits(node, profile.has_value(), limits));
    if (profile) {
      if (!job.sizes.empty())
        return error_at(node,
                        "the job has a profile and also lists its sizes; leave one of them out");
      job.sizes = sizes_of(*profile, limits);
    }
    std::erase_if(job.sizes, [&](const SizeOption& size) {
      return size.workers < min_workers || size.workers > max_workers;
    });
    if (job.sizes.empty()) {
      return error_at(
          node, fmt::format(
                    "job '{}' has no size within its limits; add such a size, or change the limits",
                    job.name));
    }
    return job;
  }

  // Reads the profile that a job names; its path is relative to the job's file.
  Result<FiledProfile> read_profile_of(const YAML::Node& node) const {
    if (!node.IsScalar())
      return error_at(node, "not the name of a file; write the path of a profile");
    const auto path = std::filesystem::path(path_).parent_path() / node.Scalar();
    return JobFile(path.string()).read<FiledProfile>(&JobFile::read_profile);
  }

  Result<std::vector<JobRequest>> read_root(const YAML::Node& root) const {
    const bool is_profile = root.IsMap() && root["format"].IsDefined();
    return is_profile ? read_profiled_job(root) : read_jobs(root);
  }

  Result<std::vector<JobRequest>> read_jobs(const YAML::Node& root) const {
    const YAML::Node list = root.IsMap() ? root["jobs"] : YAML::Node();
    if (!list || !list.IsSequence() || list.size() == 0) {
      return error_at(root, "no list of jobs; write 'jobs:' and one entry for each job");
    }
    std::vector<JobRequest> jobs;
    for (const YAML::Node& node : list) {
      FFDL_ASSIGN_OR_RETURN(JobRequest job, read_job(node));
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  const std::string path_;
};

}  // namespace

Result<std::vector<JobRequest>> load_job_requests(const std::filesystem::path& file) {
  return JobFile(file.string()).read();
}

}  // namespace ffdl::cluster
