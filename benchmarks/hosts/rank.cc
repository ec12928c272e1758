#include "benchmarks/hosts/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "ffdl/store.h"

namespace ffdl::bench {
namespace {

constexpr Duration kOperationMax = std::chrono::minutes(8);
constexpr uint16_t kFirstPort = 5000;
constexpr uint64_t kWakingBytes = 4096;

std::string address_of(int rank, const LaboratoryOptions& options) {
  return testing::Hosts::address(rank / options.ranks_per_host);
}

}  // namespace

Result<Rank> Rank::connect(int rank, const LaboratoryOptions& options, const std::string& folder) {
  const int ranks = options.hosts * options.ranks_per_host;
  std::vector<std::string> addresses;
  for (int i = 0; i < ranks; ++i) addresses.push_back(address_of(i, options));
  FFDL_ASSIGN_OR_RETURN(Streams streams,
                        Streams::connect(rank, addresses, kStreamsMax, kFirstPort));
  Rank made(rank, ranks, std::move(streams));
  // A disk that other programs write to may take seconds for a file of the store.
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("file://" + folder, system_runtime(),
                                                     {.operation_timeout = kOperationMax}));
  World world = {.generation = 0, .rank = rank, .members = {}};
  for (int i = 0; i < ranks; ++i) world.members.push_back({fmt::format("rank{}", i), 1});
  const auto connect_by = [&](Backend backend, bool tls) {
    ++world.generation;
    CommunicatorOptions choice{.backend = backend, .address = address_of(rank, options)};
    choice.tls = tls;
    return connect_communicator(world, *store, deadline_in(kOperationMax), choice);
  };
  for (const MeasuredBackend& measured : kBackends) {
    FFDL_ASSIGN_OR_RETURN(auto communicator, connect_by(measured.backend, measured.tls));
    made.flat_.push_back(std::move(communicator));
  }
  if (options.ranks_per_host > 1) {
    FFDL_ASSIGN_OR_RETURN(made.two_levels_, connect_by(Backend::kHierarchical, false));
  }
  return made;
}

Result<double> Rank::take(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  std::string which;
  int64_t times = 0;
  uint64_t bytes = 0;
  words >> kind;
  if (kind != "trips") words >> which;
  words >> times >> bytes;
  const Status unknown(StatusCode::kInvalidArgument, "take the turn '" + line + "': unknown");
  if (times < 1 || bytes < sizeof(float)) return unknown;
  if (kind == "sum") {
    for (size_t i = 0; i < kBackends.size(); ++i) {
      if (which == kBackends[i].name) return add(*flat_[i], times, bytes);
    }
    return unknown;
  }
  if (kind == "levels" && two_levels_ != nullptr) return add(*two_levels_, times, bytes);
  const auto repeat = [&](auto&& once) -> Result<double> {
    Status status = once(kWakingBytes);
    const double seconds = seconds_of([&] {
      for (int64_t i = 0; i < times && status.ok(); ++i) status = once(bytes);
    });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  };
  if (kind == "trips") {
    return repeat([&](uint64_t size) { return streams_.round_trips(size, 1); });
  }
  if (kind == "by") {
    return repeat([&](uint64_t size) { return streams_.exchange_by(which, size); });
  }
  if (kind != "raw") return unknown;
  const int streams = std::clamp(std::stoi(which), 1, kStreamsMax);
  return repeat([&](uint64_t size) { return streams_.exchange(size, streams); });
}

Result<double> Rank::add(Communicator& communicator, int64_t times, uint64_t bytes) {
  Status status;
  // Adds up values of 1. Returns the seconds of the sum alone, without those of filling.
  const auto add_up = [&](uint64_t size) {
    values_.resize(size / sizeof(float));
    std::ranges::fill(values_, 1.0F);
    return seconds_of([&] {
      status = communicator.all_reduce({values_.data(), values_.size()}, ReduceOp::kSum,
                                       deadline_in(kOperationMax));
    });
  };
  values_.resize(std::max<size_t>(values_.size(), bytes / sizeof(float)));
  add_up(kWakingBytes);
  double seconds = 0;
  for (int64_t i = 0; i < times && status.ok(); ++i) seconds += add_up(bytes);
  FFDL_RETURN_IF_ERROR(std::move(status));
  const auto sum = static_cast<float>(ranks_);
  const bool is_right = std::ranges::all_of(values_, [&](float value) { return value == sum; });
  return is_right ? Result<double>(seconds)
                  : Status(StatusCode::kInternal, fmt::format("rank {}: a wrong sum", rank_));
}

}  // namespace ffdl::bench
