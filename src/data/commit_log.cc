#include "ffdl/commit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "data/audit.h"
#include "data/commit_line.h"
#include "data/input_file.h"
#include "ffdl/data_source.h"

namespace ffdl {
namespace {

using base::make_error;
using data::CommitLine;

Status cannot_write(const std::string& path) {
  return make_error(StatusCode::kUnavailable,
                    "write commit log '{}': {}; is its folder there, and writable", path,
                    base::errno_text(errno));
}

// Whether a process was killed within the last line.
bool is_cut(const std::string& path) {
  const auto file = data::InputFile::open(path);
  if (!file.ok() || (*file)->size() == 0) return false;
  std::byte last{};
  return (*file)->read((*file)->size() - 1, std::span(&last, 1)).ok() && last != std::byte{'\n'};
}

// Reads one log after the other.
class LogReader {
 public:
  explicit LogReader(const std::string& path) : path_(path) {}

  // The lines of a log, and how many were cut: whatever a killed process left, which only the end
  // of the file or the header of the process after it follows.
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
                      "audit commit log '{}': line {} is none of such a log; name files that "
                      "CommitLog wrote",
                      path_, line);
  }
  const std::string& path_;
};

Result<data::Audit> begin_audit(const CommitLine& header) {
  const PartitionLedgerOptions options = {.samples = header.samples,
                                          .partition_samples = header.partition_samples,
                                          .epochs = header.epochs};
  FFDL_RETURN_IF_ERROR(PartitionLedger::create(options).status());
  return data::Audit({.samples = header.samples, .partition_samples = header.partition_samples},
                     header.epochs);
}

}  // namespace

Result<std::unique_ptr<CommitLog>> CommitLog::open(const std::string& path,
                                                   const PartitionLedgerOptions& ledger) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return cannot_write(path);
  auto log = std::unique_ptr<CommitLog>(new CommitLog(path, fd));
  log->append((is_cut(path) ? "\n" : "") + data::header_line(ledger) + "\n");
  if (!log->status_.ok()) return log->status_;
  return log;
}

CommitLog::~CommitLog() { ::close(fd_); }

void CommitLog::write(const CommittedStep& step) { append(data::step_line(step) + "\n"); }

void CommitLog::append(const std::string& line) {
  for (size_t at = 0; at < line.size() && status_.ok();) {
    const ssize_t put = ::write(fd_, line.data() + at, line.size() - at);
    if (put >= 0) at += static_cast<size_t>(put);
    if (put < 0 && errno != EINTR) status_ = cannot_write(path_);
  }
}

Result<CommitAudit> audit_commit_logs(const std::vector<std::string>& paths,
                                      const CommitAuditOptions& options) {
  std::optional<data::Audit> audit;
  CommitLine first;
  uint64_t cut_lines = 0;
  for (const std::string& path : paths) {
    std::vector<CommitLine> lines;
    FFDL_RETURN_IF_ERROR(LogReader(path).read(lines, cut_lines));
    for (const CommitLine& line : lines) {
      if (!audit) {
        first = line;
        FFDL_ASSIGN_OR_RETURN(audit, begin_audit(first));
      }
      if (!line.is_header) {
        audit->add(line.step, path);
      } else if (line.samples != first.samples ||
                 line.partition_samples != first.partition_samples) {
        return base::invalid_argument(
            "audit commit log '{}': it is of {} samples in partitions of {}, and '{}' of {} in "
            "partitions of {}; audit one job at a time",
            path, line.samples, line.partition_samples, paths[0], first.samples,
            first.partition_samples);
      }
    }
  }
  if (!audit) {
    return base::invalid_argument("audit commit logs: {}; name all of a job",
                                  paths.empty() ? "none is named" : "all that are named are empty");
  }
  CommitAudit made = audit->finish(options);
  made.cut_lines = cut_lines;
  return made;
}

}  // namespace ffdl
