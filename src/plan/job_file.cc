#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/errors.h"
#include "ffdl/plan_files.h"
#include "plan/csv.h"

// JSON is read as YAML too, of which it is a part: so both know the line and column of every value.
namespace ffdl {
namespace {

class JobFile {
 public:
  explicit JobFile(std::string path) : path_(std::move(path)) {}

  Result<std::vector<JobRequest>> read() {
    try {
      return read_jobs(YAML::LoadFile(path_));
    } catch (const YAML::BadFile&) {
      return base::make_error(StatusCode::kNotFound, "read '{}': no such file; check the path",
                              path_);
    } catch (const YAML::Exception& failure) {
      return error_at(failure.mark, failure.msg + "; correct the syntax");
    }
  }

 private:
  Status error_at(const YAML::Mark& mark, std::string_view what) const {
    return base::invalid_argument("read '{}': line {}, column {}: {}", path_,
                                  std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1, what);
  }
  Status error_at(const YAML::Node& node, std::string_view what) const {
    return error_at(node.Mark(), what);
  }

  Result<double> number(const YAML::Node& node, double least) const {
    const auto value = node.IsScalar() ? plan::parse_number(node.Scalar()) : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < least) {
      return error_at(node, fmt::format("not a number from {} on; write one", least));
    }
    return *value;
  }

  Result<int> integer(const YAML::Node& node, int least) const {
    const auto value = node.IsScalar() ? plan::parse_integer(node.Scalar()) : std::nullopt;
    if (!value || *value < least || *value > INT32_MAX) {
      return error_at(node, fmt::format("not a whole number from {} on; write one", least));
    }
    return static_cast<int>(*value);
  }

  Result<bool> truth(const YAML::Node& node) const {
    bool value = false;
    if (!YAML::convert<bool>::decode(node, value)) {
      return error_at(node, "neither true nor false; write one of them");
    }
    return value;
  }

  // Calls `take` for each entry of a map. It answers whether it knows the key.
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
    Status read = for_each(node, "a size", "workers, scaling, batch",
                           [&](const std::string& key, const YAML::Node& value) -> Result<bool> {
                             if (key == "workers") {
                               FFDL_ASSIGN_OR_RETURN(size.workers, integer(value, 1));
                             } else if (key == "scaling") {
                               FFDL_ASSIGN_OR_RETURN(size.value, number(value, 0));
                             } else if (key == "batch") {
                               FFDL_ASSIGN_OR_RETURN(size.batch, integer(value, 1));
                             } else {
                               return false;
                             }
                             return true;
                           });
    if (!read.ok()) return read;
    if (size.workers == 0) return error_at(node, "a size without workers; write how many");
    return size;
  }

  Status read_sizes(const YAML::Node& list, bool plain, std::vector<SizeOption>& sizes) const {
    if (!list.IsSequence()) return error_at(list, "not a list; write [first, second]");
    for (const YAML::Node& node : list) {
      SizeOption size;
      if (plain) {
        size.workers = static_cast<int>(sizes.size()) + 1;
        FFDL_ASSIGN_OR_RETURN(size.value, number(node, 0));
      } else {
        FFDL_ASSIGN_OR_RETURN(size, read_size(node));
      }
      const auto same = [&](const SizeOption& other) { return other.workers == size.workers; };
      if (std::any_of(sizes.begin(), sizes.end(), same)) {
        return error_at(
            node, fmt::format("{} workers were there before; list each size once", size.workers));
      }
      sizes.push_back(size);
    }
    return {};
  }

  Result<JobRequest> read_job(const YAML::Node& node) const {
    JobRequest job;
    int min_workers = 1, max_workers = INT32_MAX;
    Status read = for_each(
        node, "a job",
        "name, scaling, sizes, min_workers, max_workers, may_wait, current_workers, switch_cost",
        [&](const std::string& key, const YAML::Node& value) -> Result<bool> {
          if (key == "name" && value.IsScalar()) {
            job.name = value.Scalar();
          } else if (key == "scaling" || key == "sizes") {
            if (!job.sizes.empty()) return error_at(value, "sizes twice; give scaling or sizes");
            FFDL_RETURN_IF_ERROR(read_sizes(value, key == "scaling", job.sizes));
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
    std::erase_if(job.sizes, [&](const SizeOption& size) {
      return size.workers < min_workers || size.workers > max_workers;
    });
    if (job.sizes.empty()) {
      return error_at(node,
                      fmt::format("job '{}' has no size within its limits; list one", job.name));
    }
    return job;
  }

  Result<std::vector<JobRequest>> read_jobs(const YAML::Node& root) const {
    const YAML::Node list = root.IsMap() ? root["jobs"] : YAML::Node();
    if (!list || !list.IsSequence() || list.size() == 0) {
      return error_at(root, "no list of jobs; write jobs: and one entry for each");
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

}  // namespace ffdl
