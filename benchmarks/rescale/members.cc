#include "benchmarks/rescale/members.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace ffdl::bench {

Result<std::unique_ptr<Members>> Members::start(int count, Duration lease) {
  FFDL_ASSIGN_OR_RETURN(auto store, StoreFolder::start());
  auto members = std::unique_ptr<Members>(new Members(std::move(store), lease));
  for (int i = 0; i < count; ++i) {
    FFDL_ASSIGN_OR_RETURN(auto member, members->start_member(i));
    members->all_.push_back(std::move(member));
  }
  FFDL_RETURN_IF_ERROR(members->tell(fmt::format("world {}", count)));
  FFDL_RETURN_IF_ERROR(members->latest().status());
  FFDL_RETURN_IF_ERROR(members->activate());
  return members;
}

Members::~Members() {
  for (const auto& member : all_) {
    member->kill_now();
    member->reap();
  }
}

Result<std::unique_ptr<Resident>> Members::start_member(int which) const {
  const auto lease_ms = std::chrono::duration_cast<std::chrono::milliseconds>(lease_);
  FFDL_ASSIGN_OR_RETURN(
      auto member,
      Resident::start_self({"--role", "member", store_->path(), fmt::format("member{}", which),
                            std::to_string(lease_ms.count())}));
  FFDL_RETURN_IF_ERROR(member->ask("").status());
  return member;
}

Result<int> Members::leader() {
  for (int i = 0; i < count(); ++i) {
    FFDL_ASSIGN_OR_RETURN(const double leads, all_[static_cast<size_t>(i)]->ask_number("leads"));
    if (leads > 0) return i;
  }
  return Status(StatusCode::kNotFound, "find the leader: none of the members leads");
}

Result<uint64_t> Members::generation() {
  FFDL_ASSIGN_OR_RETURN(const double generation, all_.front()->ask_number("generation"));
  return static_cast<uint64_t>(generation);
}

Status Members::tell(const std::string& command, std::optional<int> except) {
  for (int i = 0; i < count(); ++i) {
    if (i != except) FFDL_RETURN_IF_ERROR(all_[static_cast<size_t>(i)]->tell(command));
  }
  return {};
}

Result<Time> Members::latest(std::optional<int> except) {
  Time last = Time::min();
  std::optional<std::string> first_rest;
  for (int i = 0; i < count(); ++i) {
    if (i == except) continue;
    FFDL_ASSIGN_OR_RETURN(const std::string answer, all_[static_cast<size_t>(i)]->ask(""));
    const size_t space = answer.find(' ');
    const std::string rest = space == answer.npos ? "" : answer.substr(space);
    if (rest != first_rest.value_or(rest)) {
      return Status(StatusCode::kInternal, fmt::format("compare worlds: member {} has{}, another{}",
                                                       i, rest, *first_rest));
    }
    first_rest = rest;
    last = std::max(last, Time(std::chrono::nanoseconds(std::stoll(answer))));
  }
  return last;
}

Status Members::activate(std::optional<int> except) {
  FFDL_RETURN_IF_ERROR(tell("activate", except));
  return latest(except).status();
}

Status Members::expect_end_of(int which) {
  return tell(fmt::format("world {}", count() - 1), which);
}

Result<Time> Members::end_seen(int which) {
  FFDL_ASSIGN_OR_RETURN(const Time seen, latest(which));
  FFDL_RETURN_IF_ERROR(activate(which));
  return seen;
}

Status Members::replace(int which) {
  auto& place = all_[static_cast<size_t>(which)];
  place->kill_now();
  place->reap();
  FFDL_ASSIGN_OR_RETURN(place, start_member(which));
  FFDL_RETURN_IF_ERROR(tell(fmt::format("world {}", count())));
  FFDL_RETURN_IF_ERROR(latest().status());
  return activate();
}

Result<Time> Members::put_by_all() {
  FFDL_RETURN_IF_ERROR(tell("put"));
  return latest();
}

}  // namespace ffdl::bench
