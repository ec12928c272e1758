#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "base/errors.h"
#include "ffdl/elastic_policy.h"

// JSON is read as YAML too, of which it is a part: so both know the line and column of every value.
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
  // What a key sets. False: its value does not fit.
  using Set = std::function<bool(const YAML::Node&)>;
  using Keys = std::map<std::string, Set>;

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
  // "8:30"
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
                        fmt::format("there is no '{}' here; write some of {}", key, names(keys)));
      }
      if (found->second(entry.second)) continue;
      return error_at(entry.second, fmt::format("this does not fit '{}'; correct it", key));
    }
    return {};
  }

  Status read_sizes(const YAML::Node& list, std::vector<ScheduledSize>& sizes) const {
    if (!list.IsSequence()) return error_at(list, "not a list; write [{from: 8:00, workers: 2}]");
    for (const YAML::Node& node : list) {
      ScheduledSize& size = sizes.emplace_back();
      FFDL_RETURN_IF_ERROR(
          read_map(node, {{"from", time_of_day(size.from)}, {"workers", whole(size.workers)}}));
    }
    return {};
  }

  // The keys of the kind beside those of all, and what is made of them.
  template <class Options>
  Result<LoadedPolicy> finish(const YAML::Node& root, Keys keys, const Options& options,
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
    auto made = make_policy(options);
    if (!made.ok()) return error_at(root, made.status().message());
    loaded.policy = *std::move(made);
    const Status checked = check_steady(steady);
    if (!checked.ok()) return error_at(root, checked.message());
    return loaded;
  }

  Result<LoadedPolicy> read_schedule(const YAML::Node& root) const {
    SchedulePolicyOptions options;
    Status sizes;
    const Keys keys = {{"sizes",
                        [&](const YAML::Node& node) {
                          sizes = read_sizes(node, options.sizes);
                          return true;  // it says better what is wrong
                        }},
                       {"utc_offset_h", seconds(options.utc_offset, 3600)}};
    return finish(root, keys, options, sizes);
  }

  Result<LoadedPolicy> read_policy(const YAML::Node& root) const {
    const YAML::Node kind = root.IsMap() ? root["policy"] : YAML::Node();
    const std::string name = kind && kind.IsScalar() ? kind.Scalar() : "";
    if (name == "efficiency") {
      EfficiencyPolicyOptions options;
      return finish(root,
                    {{"grow_above", number(options.grow_above)},
                     {"shrink_below", number(options.shrink_below)},
                     {"trusted_for_s", seconds(options.trusted_for)}},
                    options);
    }
    if (name == "queue") {
      QueuePolicyOptions options;
      return finish(root,
                    {{"metric", text(options.metric)}, {"per_worker", number(options.per_worker)}},
                    options);
    }
    if (name == "noise") {
      NoisePolicyOptions options;
      return finish(root,
                    {{"metric", text(options.metric)},
                     {"samples_per_worker", number(options.samples_per_worker)}},
                    options);
    }
    if (name == "schedule") return read_schedule(root);
    if (name == "idle") {
      IdlePolicyOptions options;
      return finish(root, {{"keep_idle", whole(options.keep_idle)}}, options);
    }
    return error_at(kind && kind.IsScalar() ? kind : root,
                    "no policy; write policy: efficiency, queue, noise, schedule or idle");
  }

  const std::string path_;
};

}  // namespace

Result<LoadedPolicy> load_policy(const std::filesystem::path& file) {
  return PolicyFile(file.string()).read();
}

}  // namespace ffdl
