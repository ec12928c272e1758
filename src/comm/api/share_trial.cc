#include "comm/api/share_trial.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "comm/operation/rendezvous.h"
#include "comm/operation/world_key.h"
#include "comm/shm/layout.h"
#include "ffdl/runtime.h"
#include "shm/segment.h"

namespace ffdl::comm {
namespace {

constexpr std::string_view kNothing = "-";  // the record of a rank that has nothing to report
constexpr uint64_t kTrialBytes = 4096;

// The segment of a trial, by its name, which is removed with it.
class TrialSegment {
 public:
  // Creates a segment. Without one, its name is kNothing and the cause is logged.
  explicit TrialSegment(const World& world) {
    const std::string name =
        fmt::format("comm-{}-{:016x}", world.generation, system_runtime().random());
    Result<shm::Segment> made = shm::Segment::create({.name = name,
                                                      .kind = shm::SegmentKind::kCommunicator,
                                                      .layout_version = kLayoutVersion,
                                                      .bytes = kTrialBytes});
    const Status published = made.ok() ? made->publish() : made.status();
    if (published.ok()) {
      segment_ = std::move(made).value();
    } else {
      base::log_warning("connect {} as rank {}: {}", name_of(world), world.rank,
                        published.message());
    }
  }
  ~TrialSegment() {
    if (segment_) segment_->unlink();
  }
  TrialSegment(const TrialSegment&) = delete;
  TrialSegment& operator=(const TrialSegment&) = delete;

  std::string name() const { return segment_ ? segment_->name() : std::string(kNothing); }

 private:
  std::optional<shm::Segment> segment_;
};

// Returns why this process cannot open the segment `name`; kNothing: it can.
std::string open_trial(const std::string& name) {
  if (name == kNothing) return "that rank could not create shared memory";
  const auto opened = shm::Segment::open(name, shm::SegmentKind::kCommunicator, kLayoutVersion);
  return std::string(opened.ok() ? kNothing : opened.status().message());
}

// Returns the first rank of the host of each rank.
std::vector<size_t> first_ranks(const std::vector<Introduction>& members) {
  const std::vector<int> hosts = hosts_of(members);
  std::vector<size_t> first;
  for (const int host : hosts) {
    first.push_back(static_cast<size_t>(std::ranges::find(hosts, host) - hosts.begin()));
  }
  return first;
}

// Returns true for the first rank of each host whose processes are in different namespaces.
std::vector<bool> hosts_to_try(const std::vector<Introduction>& members,
                               const std::vector<size_t>& first) {
  std::vector<bool> is_tried(first.size(), false);
  if (!may_share_memory(members.front().backend)) return is_tried;
  for (size_t rank = 0; rank < first.size(); ++rank) {
    const bool apart = members[rank].host.processes != members[first[rank]].host.processes;
    if (apart) is_tried[first[rank]] = true;
  }
  return is_tried;
}

// Gives each rank of a host a memory of its own if one of its ranks reports a cause.
void separate(const World& world, const std::vector<size_t>& first,
              const std::vector<std::string>& causes, std::vector<Introduction>& members) {
  std::vector<bool> shares(first.size(), true);  // by a host's first rank
  for (size_t rank = 0; rank < first.size(); ++rank) {
    const size_t other = first[rank];
    if (causes[rank] == kNothing || !shares[other]) continue;
    shares[other] = false;
    if (world.rank != 0) continue;
    base::log_warning(
        "connect {}: rank {} '{}' cannot open the shared memory of rank {} '{}' on its host, so "
        "the ranks of this host use the network: {}",
        name_of(world), rank, world.members[rank].id, other, world.members[other].id,
        causes[rank]);
  }
  for (size_t rank = 0; rank < first.size(); ++rank) {
    if (!shares[first[rank]]) members[rank].host.memory += fmt::format("/{}", rank);
  }
}

}  // namespace

Result<ShareTrial> try_shared_memory(const World& world, Store& store, Time deadline,
                                     std::vector<Introduction> members) {
  const std::vector<size_t> first = first_ranks(members);
  const std::vector<bool> is_tried = hosts_to_try(members, first);
  if (std::ranges::find(is_tried, true) == is_tried.end()) {
    return ShareTrial{.members = std::move(members), .leases = {}};
  }
  const auto own = static_cast<size_t>(world.rank);
  const size_t offering = first[own];
  std::optional<TrialSegment> segment;
  if (offering == own && is_tried[own]) segment.emplace(world);
  FFDL_ASSIGN_OR_RETURN(const Told offers,
                        exchange_records(world, store, "offer",
                                         segment ? segment->name() : std::string(kNothing),
                                         deadline));
  const bool opens = is_tried[offering] && offering != own;
  FFDL_ASSIGN_OR_RETURN(
      const Told outcomes,
      exchange_records(world, store, "opened",
                       opens ? open_trial(offers.records[offering]) : std::string(kNothing),
                       deadline));
  separate(world, first, outcomes.records, members);
  return ShareTrial{.members = std::move(members), .leases = {offers.lease, outcomes.lease}};
}

}  // namespace ffdl::comm
