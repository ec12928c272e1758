#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "base/errors.h"
#include "ffdl/scaling/elastic_policy.h"

// Reads policy files. JSON is a part of YAML and is read as such, so every value of both has a line
// and column.
namespace ffdl {
namespace {

// Beyond these a number of seconds does not fit into a Duration.
constexpr double kSecondsMax = 9e9;

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class PolicyFile {
 public:
  explicit PolicyFile(std::string path) : path_(std::move(path)) {}

  Result<LoadedPolicy> read() {
    try {
      return read_policy(YAML::LoadFile(path_));
    } catch (const YAML::BadFile&) {
      return base::make_error(StatusCode::kNotFound, "read '{}': no such file; check the path",
                              path_);
    } catch (const YAML::Exception& failure) {
      return error_at(failure.mark, failure.msg + "; correct the syntax");
    }
  }

 private:
  // Sets the value of a key. Returns false if it does not fit.
  using Set = std::function<bool(const YAML::Node&)>;
  using Keys = std::map<std::string, Set>;
  // Makes the policy from the values that were set.
  using Make = std::function<Result<std::unique_ptr<ElasticPolicy>>()>;

  Status error_at(const YAML::Mark& mark, std::string_view what) const {
    return base::invalid_argument("read '{}': line {}, column {}: {}", path_,
                                  std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1, what);
  }
  Status error_at(const YAML::Node& node, std::string_view what) const {
    return error_at(node.Mark(), what);
  }

  static Set number(double& to) {
    return [&to](const YAML::Node& node) {
      return YAML::convert<double>::decode(node, to) && std::isfinite(to);
    };
  }
  static Set whole(int& to) {
    return [&to](const YAML::Node& node) {
      return node.IsScalar() && YAML::convert<int>::decode(node, to);
    };
  }
  static Set text(std::string& to) {
    return [&to](const YAML::Node& node) {
      if (node.IsScalar()) to = node.Scalar();
      return node.IsScalar();
    };
  }
  static Set seconds(Duration& to, double unit = 1) {
    return [&to, unit](const YAML::Node& node) {
      double value = 0;
      if (!number(value)(node) || std::abs(value * unit) > kSecondsMax) return false;
      to = to_duration(value * unit);
      return true;
    };
  }
  // Reads a time such as "8:30".
  static Set time_of_day(Duration& to) {
    return [&to](const YAML::Node& node) {
      const std::string text = node.IsScalar() ? node.Scalar() : "";
      const size_t colon = text.find(':');
      if (colon == text.npos) return false;
      const auto part = [&](size_t begin, size_t end, int most) -> std::optional<int> {
        int value = -1;
        const auto read = std::from_chars(text.data() + begin, text.data() + end, value);
        if (read.ec != std::errc() || read.ptr != text.data() + end) return std::nullopt;
        if (value < 0 || value > most) return std::nullopt;
        return value;
      };
      const auto hours = part(0, colon, 23), minutes = part(colon + 1, text.size(), 59);
      if (!hours || !minutes) return false;
      to = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
      return true;
    };
  }

  static std::string names(const Keys& keys) {
    std::string all;
    for (const auto& [name, set] : keys) all += (all.empty() ? "" : ", ") + name;
    return all;
  }

  Status read_map(const YAML::Node& map, const Keys& keys) const {
    if (!map.IsMap()) return error_at(map, "not a map; write some of " + names(keys));
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto found = keys.find(key);
      if (found == keys.end()) {
        return error_at(entry.first,
                        fmt::format("'{}' is not known here; write some of {}", key, names(keys)));
      }
      if (found->second(entry.second)) continue;
      return error_at(entry.second, fmt::format("this does not fit '{}'; correct it", key));
    }
    return {};
  }

  Status read_sizes(const YAML::Node& list, std::vector<std::pair<Duration, int>>& sizes) const {
    if (!list.IsSequence()) return error_at(list, "not a list; write [{from: 8:00, workers: 2}]");
    for (const YAML::Node& node : list) {
      auto& [from, workers] = sizes.emplace_back();
      FFDL_RETURN_IF_ERROR(
          read_map(node, {{"from", time_of_day(from)}, {"workers", whole(workers)}}));
    }
    return {};
  }

  // Reads the keys of the kind and those of all policies, and makes the policy.
  Result<LoadedPolicy> finish(const YAML::Node& root, Keys keys, const Make& make,
                              const Status& other = {}) const {
    LoadedPolicy loaded;
    SteadyOptions& steady = loaded.steady;
    keys["policy"] = [](const YAML::Node&) { return true; };
    keys["min_workers"] = whole(steady.min_workers);
    keys["max_workers"] = whole(steady.max_workers);
    keys["cooldown_s"] = seconds(steady.cooldown);
    keys["confirmations"] = whole(steady.confirmations);
    keys["tolerance"] = number(steady.tolerance);
    keys["step_max"] = whole(steady.step_max);
    FFDL_RETURN_IF_ERROR(read_map(root, keys));
    FFDL_RETURN_IF_ERROR(Status(other));
    auto made = make();
    if (!made.ok()) return error_at(root, made.status().message());
    loaded.policy = *std::move(made);
    const Status checked = check_steady(steady);
    if (!checked.ok()) return error_at(root, checked.message());
    return loaded;
  }

  Result<LoadedPolicy> read_schedule(const YAML::Node& root) const {
    std::vector<std::pair<Duration, int>> sizes;
    Duration utc_offset{};
    Status read;
    const Keys keys = {{"sizes",
                        [&](const YAML::Node& node) {
                          read = read_sizes(node, sizes);
                          return true;  // read_sizes() reports the error more precisely
                        }},
                       {"utc_offset_h", seconds(utc_offset, 3600)}};
    return finish(root, keys, [&] { return schedule_policy(sizes, utc_offset); }, read);
  }

  Result<LoadedPolicy> read_efficiency(const YAML::Node& root) const {
    double grow_above = 0.7, shrink_below = 0.5;  // the defaults of efficiency_policy()
    Duration trusted_for = std::chrono::minutes(10);
    return finish(root,
                  {{"grow_above", number(grow_above)},
                   {"shrink_below", number(shrink_below)},
                   {"trusted_for_s", seconds(trusted_for)}},
                  [&] { return efficiency_policy(grow_above, shrink_below, trusted_for); });
  }

  Result<LoadedPolicy> read_policy(const YAML::Node& root) const {
    const YAML::Node kind = root.IsMap() ? root["policy"] : YAML::Node();
    const std::string name = kind && kind.IsScalar() ? kind.Scalar() : "";
    if (name == "efficiency") return read_efficiency(root);
    if (name == "queue") {
      double per_worker = 0;
      std::string metric = "queue_depth";
      return finish(root, {{"metric", text(metric)}, {"per_worker", number(per_worker)}},
                    [&] { return queue_policy(per_worker, metric); });
    }
    if (name == "noise") {
      double samples = 0;
      std::string metric = "noise_scale";
      return finish(root, {{"metric", text(metric)}, {"samples_per_worker", number(samples)}},
                    [&] { return noise_policy(samples, metric); });
    }
    if (name == "schedule") return read_schedule(root);
    if (name == "idle") {
      int keep_idle = 0;
      return finish(root, {{"keep_idle", whole(keep_idle)}},
                    [&] { return idle_policy(keep_idle); });
    }
    return error_at(
        kind && kind.IsScalar() ? kind : root,
        "no known policy; write 'policy:' and one of efficiency, queue, noise, schedule and idle");
  }

  const std::string path_;
};

}  // namespace

Result<LoadedPolicy> load_policy(const std::filesystem::path& file) {
  return PolicyFile(file.string()).read();
}

}  // namespace ffdl
