#include "benchmarks/harness/report.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace ffdl::bench {
namespace {

using Json = nlohmann::ordered_json;

// A figure that is NaN or infinite counts as missing.
Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json to_json(const Row& row) {
  Json json = {{"name", row.name},
               {"value", number(row.value)},
               {"unit", row.unit},
               {"limit", number(row.limit)},
               {"limit_is", text_or_null(row.limit_is)},
               {"ratio", number(row.ratio)},
               {"lo", number(row.lo)},
               {"hi", number(row.hi)},
               {"disturbed", row.disturbed},
               {"note", row.note}};
  if (row.target) {
    json["target"] = row.target->bound;
    const auto reached = met(row);
    json["met"] = reached ? Json(*reached) : Json(nullptr);
  }
  return json;
}

std::string figure(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

std::string bounds(const Row& row) {
  return row.lo && row.hi ? fmt::format("[{:.4g}, {:.4g}]", *row.lo, *row.hi) : "-";
}

std::string verdict(const Row& row) {
  if (row.disturbed) return "disturbed";
  if (is_self_check(row) && row.lo && row.hi) return *row.lo <= 1 && 1 <= *row.hi ? "ok" : "VOID";
  const auto reached = met(row);
  if (!reached) return "";
  return fmt::format("{} ({} {:.4g})", *reached ? "met" : "MISSED",
                     row.target->smaller_is_better ? "at most" : "at least", row.target->bound);
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cores = std::thread::hardware_concurrency();
  utsname names{};
  if (uname(&names) == 0) machine.kernel = fmt::format("{} {}", names.sysname, names.release);
  struct sysinfo memory{};
  if (sysinfo(&memory) == 0) machine.memory_bytes = uint64_t{memory.totalram} * memory.mem_unit;
  machine.cpu = "unknown";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (const size_t colon = line.find(": ");
        line.starts_with("model name") && colon < line.size()) {
      machine.cpu = line.substr(colon + 2);
      break;
    }
  }
  return machine;
}

std::optional<bool> met(const Row& row) {
  if (!row.target || row.disturbed || !row.lo || !row.hi) return std::nullopt;
  return row.target->smaller_is_better ? *row.lo <= row.target->bound
                                       : *row.hi >= row.target->bound;
}

bool is_self_check(const Row& row) { return row.name.ends_with("/aa"); }

bool is_void(const Report& report) {
  return std::any_of(report.rows.begin(), report.rows.end(), [](const Row& row) {
    return is_self_check(row) && row.lo && row.hi && (*row.lo > 1 || *row.hi < 1);
  });
}

nlohmann::ordered_json to_json(const Report& report) {
  Json json = {{"machine",
                {{"cpu", report.machine.cpu},
                 {"cores", report.machine.cores},
                 {"kernel", report.machine.kernel},
                 {"memory_bytes", report.machine.memory_bytes}}},
               {"commit", report.commit},
               {"date", report.date},
               {"command", report.command},
               {"void", is_void(report)},
               {"rows", Json::array()}};
  for (const Row& row : report.rows) json["rows"].push_back(to_json(row));
  return json;
}

std::string to_table(const Report& report) {
  const Machine& machine = report.machine;
  std::string table = fmt::format("{}, {} cores, {:.1f} GB, {}\ncommit {}, {}\n\n", machine.cpu,
                                  machine.cores, static_cast<double>(machine.memory_bytes) * 1e-9,
                                  machine.kernel, report.commit, report.date);
  size_t width = 4;
  for (const Row& row : report.rows) width = std::max(width, row.name.size());
  const auto line = [&](auto... cells) {
    table +=
        fmt::format(fmt::runtime("{:<{}}  {:>10}  {:<10}  {:>10}  {:>7}  {:<18}  {}\n"), cells...);
  };
  line("name", width, "value", "unit", "limit", "ratio", "95 %", "");
  for (const Row& row : report.rows) {
    line(row.name, width, figure(row.value), row.unit, figure(row.limit), figure(row.ratio),
         bounds(row), verdict(row));
    if (!row.note.empty()) table += fmt::format("    {}\n", row.note);
  }
  if (is_void(report))
    table += "\nVOID: a thing differed from itself; repeat the run on a quiet machine\n";
  return table;
}

std::string to_line(const Row& row) {
  if (!row.value) return fmt::format("{}: {}", row.name, row.note);
  std::string line = fmt::format("{}: {:.4g} {}", row.name, *row.value, row.unit);
  if (row.ratio) line += fmt::format(", ratio {:.4g}", *row.ratio);
  if (row.lo) line += " " + bounds(row);
  if (const std::string word = verdict(row); !word.empty()) line += " " + word;
  return line;
}

Status write_json(const Report& report, const std::string& path) {
  const std::string temporary = path + ".part";
  std::error_code failure;
  if (auto folder = std::filesystem::path(path).parent_path(); !folder.empty()) {
    std::filesystem::create_directories(folder, failure);
  }
  {
    std::ofstream out(temporary);
    out << to_json(report).dump(2) << '\n';
    if (!out.flush()) {
      return {StatusCode::kUnavailable,
              fmt::format("write '{}': the file cannot be written; give another one with --json",
                          temporary)};
    }
  }
  std::filesystem::rename(temporary, path, failure);
  if (!failure) return {};
  return {StatusCode::kUnavailable,
          fmt::format("write '{}': {}; give another file with --json", path, failure.message())};
}

int exit_code(const Report& report) {
  if (is_void(report)) return 2;
  const bool missed = std::any_of(report.rows.begin(), report.rows.end(),
                                  [](const Row& row) { return met(row) == false; });
  return missed ? 3 : 0;
}

}  // namespace ffdl::bench
