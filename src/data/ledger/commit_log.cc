#include "ffdl/data/commit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/held_signal.h"
#include "base/own_files.h"
#include "base/resource_limit.h"
#include "data/formats/input_file.h"
#include "data/ledger/audit.h"
#include "data/ledger/commit_line.h"
#include "data/ledger/ledger_options.h"
#include "ffdl/data/data_source.h"

namespace ffdl {
namespace {

using base::make_error;
using data::CommitLine;

Status cannot_write(const std::string& path) {
  return base::system_failure(fmt::format("write commit log '{}'", path), errno,
                              "does its folder exist, and is it writable");
}

// Reports whether the last line lacks its end, since a process was killed while writing it.
bool is_cut(const std::string& path) {
  const auto file = data::InputFile::open(path);
  if (!file.ok() || (*file)->size() == 0) return false;
  std::byte last{};
  return (*file)->read((*file)->size() - 1, std::span(&last, 1)).ok() && last != std::byte{'\n'};
}

// Reads one log.
class LogReader {
 public:
  explicit LogReader(const std::string& path) : path_(path) {}

  // Reads the lines of a log and counts the cut ones. Only the end of the file or the header of the
  // next process may follow a cut line.
  Status read(std::vector<CommitLine>& lines, uint64_t& cut_lines) {
    FFDL_ASSIGN_OR_RETURN(const auto file, data::InputFile::open(path_));
    if (file->size() == 0) return {};  // its process was killed before it wrote anything
    auto opened = open_lines({path_});
    if (!opened.ok()) return std::move(opened).status();
    SampleBatch batch;
    bool is_broken = false;
    for (uint64_t i = 0; i < (*opened)->samples(); ++i) {
      batch.clear();
      FFDL_RETURN_IF_ERROR((*opened)->read(std::span(&i, 1), batch));
      const std::string_view text(reinterpret_cast<const char*>(batch[0].data()), batch[0].size());
      auto line = data::parse_commit_line(text);
      if (is_broken && (!line || !line->is_header)) return no_log(i);
      is_broken = !line;
      if (is_broken) ++cut_lines;
      if (line) lines.push_back(std::move(*line));
    }
    if (lines.empty() || !lines[0].is_header) return no_log(1);
    return {};
  }

 private:
  Status no_log(uint64_t line) const {
    return make_error(StatusCode::kCorrupt,
                      "audit commit log '{}': line {} is not of such a log; name files that "
                      "CommitLog wrote",
                      path_, line);
  }
  const std::string& path_;
};

// Merges the logs of jobs that share one data set.
class LogAuditor {
 public:
  Status add(const std::vector<std::string>& paths, size_t job) {
    for (const std::string& path : paths) {
      std::vector<CommitLine> lines;
      FFDL_RETURN_IF_ERROR(LogReader(path).read(lines, cut_lines_));
      for (const CommitLine& line : lines) {
        if (!audit_) FFDL_RETURN_IF_ERROR(begin(path, line));
        if (line.is_header) {
          FFDL_RETURN_IF_ERROR(check(path, line));
        } else {
          audit_->add(line.step, path, job);
        }
      }
    }
    return {};
  }
  Result<CommitAudit> finish(const CommitAuditOptions& options) {
    if (!audit_) {
      return base::invalid_argument(
          "audit commit logs: none is named, or all are empty; name all "
          "of a job");
    }
    CommitAudit made = audit_->finish(options);
    made.cut_lines = cut_lines_;
    return made;
  }

 private:
  Status begin(const std::string& path, const CommitLine& header) {
    const LedgerOptions options = {.samples = header.samples,
                                   .partition_samples = header.partition_samples,
                                   .epochs = header.epochs};
    FFDL_RETURN_IF_ERROR(data::check_options(options, {}));
    first_ = header;
    first_path_ = path;
    audit_.emplace(
        data::DataSet{.samples = header.samples, .partition_samples = header.partition_samples},
        header.epochs);
    return {};
  }
  Status check(const std::string& path, const CommitLine& header) const {
    if (header.samples == first_.samples && header.partition_samples == first_.partition_samples) {
      return {};
    }
    return base::invalid_argument(
        "audit commit log '{}': it is of {} samples in partitions of {}, and '{}' of {} in "
        "partitions of {}; audit one job at a time",
        path, header.samples, header.partition_samples, first_path_, first_.samples,
        first_.partition_samples);
  }

  std::optional<data::Audit> audit_{};
  CommitLine first_{};
  std::string first_path_{};
  uint64_t cut_lines_ = 0;
};

}  // namespace

Result<std::unique_ptr<CommitLog>> CommitLog::open(const std::string& path,
                                                   const LedgerOptions& ledger) {
  Status fits = data::check_options(ledger, {});
  if (!fits.ok()) return std::move(fits).with_context(fmt::format("write commit log '{}'", path));
  auto file = base::open_log_file(path);
  if (!file.ok()) {
    const StatusCode code = file.status().code();
    return Status(code == StatusCode::kNotFound ? StatusCode::kUnavailable : code,
                  fmt::format("write commit log '{}': {}", path, file.status().message()));
  }
  auto log = std::unique_ptr<CommitLog>(new CommitLog(path, file->release()));
  log->append((is_cut(path) ? "\n" : "") + data::header_line(ledger) + "\n");
  if (!log->status_.ok()) return log->status_;
  return log;
}

CommitLog::~CommitLog() { ::close(fd_); }

void CommitLog::write(const CommittedStep& step) { append(data::step_line(step) + "\n"); }

void CommitLog::append(const std::string& line) {
  const base::HeldSignal file_size_signal(SIGXFSZ);
  for (size_t at = 0; at < line.size() && status_.ok();) {
    const ssize_t put = ::write(fd_, line.data() + at, line.size() - at);
    if (put >= 0) at += static_cast<size_t>(put);
    if (put < 0 && errno != EINTR) status_ = cannot_write(path_);
  }
}

Result<CommitAudit> audit_commit_logs(const std::vector<std::string>& paths,
                                      const CommitAuditOptions& options) {
  LogAuditor auditor;
  FFDL_RETURN_IF_ERROR(auditor.add(paths, 0));
  for (size_t i = 0; i < options.then.size(); ++i) {
    FFDL_RETURN_IF_ERROR(auditor.add(options.then[i], i + 1));
  }
  return auditor.finish(options);
}

}  // namespace ffdl
