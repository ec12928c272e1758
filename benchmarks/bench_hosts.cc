#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "benchmarks/harness/suite.h"
#include "benchmarks/hosts/cut.h"
#include "benchmarks/hosts/laboratory.h"

// './dev bench hosts': sums and cuts between the hosts of a laboratory, which are namespaces of
// this machine, beside raw TCP over the same links.
namespace ffdl::bench {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kSmallBytes = 4 << 10;
constexpr int kSumsPerTurn = 50;
constexpr double kFramePerPayload = 1514.0 / 1448.0;  // of TCP over Ethernet

// A laboratory that is made when the first row needs it.
class Lazy {
 public:
  Lazy(Suite& suite, const LaboratoryOptions& options) : suite_(suite), options_(options) {}

  // Returns null, and reports the row, where there is none.
  Laboratory* for_row(const std::string& row) {
    if (!suite_.wants(row)) return nullptr;
    if (!made_) made_.emplace(Laboratory::start(options_));
    if (made_->ok()) return &**made_;
    const Status& why = made_->status();
    if (why.code() == StatusCode::kUnavailable) {
      suite_.missing(row, why.to_string());
    } else {
      suite_.failed(row, why);
    }
    return nullptr;
  }

 private:
  Suite& suite_;
  const LaboratoryOptions options_;
  std::optional<Result<Laboratory>> made_;
};

// Returns the bytes that each rank sends in an all_reduce around a ring.
uint64_t ring_bytes(uint64_t bytes, int ranks) {
  return 2 * bytes * static_cast<uint64_t>(ranks - 1) / static_cast<uint64_t>(ranks);
}

std::string sum_line(const char* backend, int times, uint64_t bytes) {
  return fmt::format("sum {} {} {}", backend, times, bytes);
}

std::string raw_line(int streams, uint64_t bytes) {
  return fmt::format("raw {} 1 {}", streams, bytes);
}

std::string streams_of(int count) {
  return count == 1 ? "one stream" : fmt::format("{} streams", count);
}

std::function<double(double)> per_call_us(int calls) {
  return [calls](double seconds) { return seconds / calls * 1e6; };
}

std::function<double(double)> gbit_per_s(uint64_t bytes) {
  return [bytes](double seconds) { return 8e-9 * static_cast<double>(bytes) / seconds; };
}

// --- latency -------------------------------------------------------------------------------------

void latency_rows(Suite& suite, int hosts, bool with_self_check) {
  const std::string name = fmt::format("hosts/latency/{}", hosts);
  Lazy lazy(suite, {.hosts = hosts});
  const std::string trips = fmt::format("trips {} {}", kSumsPerTurn, kSmallBytes);
  const auto row = [&](Laboratory& made, const MeasuredBackend& backend) {
    return PairSpec{.name = fmt::format("{}/{}", name, backend.name),
                    .unit = "us",
                    .figure = per_call_us(kSumsPerTurn),
                    .subject = made.turn(sum_line(backend.name, kSumsPerTurn, kSmallBytes)),
                    .limit = made.turn(trips),
                    .limit_is = "a round trip of 4 KiB over raw TCP between two of the hosts",
                    .pairs = hosts == 2 ? 150 : 40,
                    .note = fmt::format("all_reduce of 4 KiB, {} hosts, one rank each", hosts)};
  };
  if (with_self_check) {
    if (Laboratory* const made = lazy.for_row("hosts/latency/2")) {
      PairSpec self = row(*made, kBackends.front());
      self.name = "hosts";
      suite.self_check(std::move(self));
    }
  }
  for (const MeasuredBackend& backend : kBackends) {
    const std::string beside_gloo = fmt::format("{}/{}/gloo", name, backend.name);
    const bool has_target = backend.is_ours && !backend.tls && hosts == 2;
    if (Laboratory* const made = lazy.for_row(fmt::format("{}/{}", name, backend.name))) {
      PairSpec spec = row(*made, backend);
      if (has_target) spec.target = Target{1 / 2.5};
      suite.measure(std::move(spec));
    }
    if (!backend.is_ours) continue;
    if (Laboratory* const made = lazy.for_row(beside_gloo)) {
      PairSpec spec = row(*made, backend);
      spec.name = beside_gloo;
      spec.limit = made->turn(sum_line("gloo", kSumsPerTurn, kSmallBytes));
      spec.limit_is = "gloo";
      if (has_target) spec.target = Target{8};
      suite.measure(std::move(spec));
    }
  }
}

// --- rates ---------------------------------------------------------------------------------------

struct Network {
  std::string name;
  testing::LinkOptions link;
  uint64_t bytes;  // of the buffers
  int pairs;
  std::optional<double> raw_target;   // of the ratio to raw TCP
  std::optional<double> tls_target;   // the same with TLS
  std::optional<double> gloo_target;  // of the ratio to gloo
  std::string note;
};

std::optional<Target> target_of(const MeasuredBackend& backend, std::optional<double> bound) {
  if (!backend.is_ours || !bound) return std::nullopt;
  return Target{*bound};
}

// Reports what raw TCP moves over these links.
void raw_row(Suite& suite, Lazy& lazy, const Network& network, int streams) {
  const std::string name = fmt::format("{}/raw/{}", network.name, streams);
  Laboratory* const made = lazy.for_row(name);
  if (made == nullptr) return;
  const uint64_t bytes = ring_bytes(network.bytes, made->options().hosts);
  suite.measure(ValueSpec{.name = name,
                          .unit = "Gbit/s",
                          .sample = [&, bytes]() -> Result<double> {
                            FFDL_ASSIGN_OR_RETURN(const double seconds,
                                                  made->take(raw_line(streams, bytes)));
                            return gbit_per_s(bytes)(seconds);
                          },
                          .samples = network.pairs,
                          .note = fmt::format("raw TCP, {} each way, all hosts at once; {}",
                                              streams_of(streams), network.note)});
}

void rate_rows(Suite& suite, const Network& network) {
  constexpr int kHosts = 2;
  Lazy lazy(suite, {.hosts = kHosts, .link = network.link});
  raw_row(suite, lazy, network, 1);
  raw_row(suite, lazy, network, kStreamsMax);
  const uint64_t bytes = ring_bytes(network.bytes, kHosts);
  for (const MeasuredBackend& backend : kBackends) {
    const std::string name = fmt::format("{}/{}", network.name, backend.name);
    const auto row = [&](Laboratory& made) {
      return PairSpec{
          .name = name,
          .unit = "Gbit/s",
          .figure = gbit_per_s(bytes),
          .subject = made.turn(sum_line(backend.name, 1, network.bytes)),
          .limit = made.turn(raw_line(backend.streams, bytes)),
          .limit_is = fmt::format("raw TCP for the bytes of a ring, {} each way",
                                  streams_of(backend.streams)),
          .pairs = network.pairs,
          .warm_up = 1,
          .target = target_of(backend, backend.tls ? network.tls_target : network.raw_target),
          .note = fmt::format("bytes that each rank of a ring sends in an all_reduce of "
                              "{} MiB; {}",
                              network.bytes >> 20, network.note)};
    };
    if (Laboratory* const made = lazy.for_row(name)) suite.measure(row(*made));
    if (!backend.is_ours) continue;
    if (Laboratory* const made = lazy.for_row(name + "/gloo")) {
      PairSpec spec = row(*made);
      spec.name = name + "/gloo";
      spec.limit = made->turn(sum_line("gloo", 1, network.bytes));
      spec.limit_is = "gloo";
      if (!backend.tls) spec.target = target_of(backend, network.gloo_target);
      suite.measure(std::move(spec));
    }
  }
}

// Compares each contender with the time in which the link passes its frames.
void wan_rows(Suite& suite, const std::string& prefix, const std::string& congestion_control) {
  constexpr double kRate = 100e6;
  const bool smoke = suite.options().smoke;
  const uint64_t bytes = smoke ? 64 << 10 : 16 << 20;
  Lazy lazy(suite, {.hosts = 2,
                    .link = {.delay = 25ms, .loss = 0.001, .rate = kRate},
                    .congestion_control = congestion_control});
  const uint64_t sent = ring_bytes(bytes, 2);
  const double least_s = 8 * static_cast<double>(sent) * kFramePerPayload / kRate;
  const auto row = [&](const std::string& name, const std::string& line,
                       std::optional<Target> target) {
    Laboratory* const made = lazy.for_row(name);
    if (made == nullptr) return;
    suite.measure(PairSpec{
        .name = name,
        .unit = "Gbit/s",
        .figure = gbit_per_s(sent),
        .subject = made->turn(line),
        .limit = [least_s]() -> Result<double> { return least_s; },
        .limit_is = "the rate of the link, less the headers of packets; not measured",
        .pairs = 5,
        .warm_up = 1,
        .target = target,
        .note =
            fmt::format("two hosts, 100 Mbit/s, a round trip of 50 ms (25 ms each way), 0.1 % of "
                        "the packets lost; TCP with {}; all_reduce of {} KiB, or raw TCP for its "
                        "bytes",
                        congestion_control, bytes >> 10)});
  };
  row(prefix + "/raw/1", raw_line(1, sent), std::nullopt);
  row(fmt::format("{}/raw/{}", prefix, kStreamsMax), raw_line(kStreamsMax, sent), std::nullopt);
  for (const MeasuredBackend& backend : kBackends) {
    row(fmt::format("{}/{}", prefix, backend.name), sum_line(backend.name, 1, bytes),
        target_of(backend, 0.85));
  }
}

// --- two levels, cuts and the emulator -----------------------------------------------------------

void two_level_rows(Suite& suite) {
  const uint64_t bytes = suite.options().smoke ? 1 << 20 : 16 << 20;
  Lazy lazy(suite, {.hosts = 4, .ranks_per_host = 2, .link = {.rate = 1e9}});
  for (const MeasuredBackend& backend : kBackends) {
    const std::string name = fmt::format("hosts/two_levels/4x2/{}", backend.name);
    Laboratory* const made = lazy.for_row(name);
    if (made == nullptr) continue;
    suite.measure(PairSpec{.name = name,
                           .unit = "ms",
                           .figure = [](double seconds) { return seconds * 1e3; },
                           .subject = made->turn(fmt::format("levels - 1 {}", bytes)),
                           .limit = made->turn(sum_line(backend.name, 1, bytes)),
                           .limit_is = fmt::format("{} between all eight ranks", backend.name),
                           .pairs = 15,
                           .warm_up = 1,
                           .target = Target{1.5},
                           .note = fmt::format("all_reduce of {} MiB, four hosts with two ranks "
                                               "each, 1 Gbit/s",
                                               bytes >> 20)});
  }
}

void cut_row(Suite& suite) {
  const std::string name = "hosts/cut_ms";
  if (!suite.wants(name)) return;
  auto job = CutJob::start();
  if (job.status().code() == StatusCode::kUnavailable) {
    return suite.missing(name, job.status().to_string());
  }
  if (!job.ok()) return suite.failed(name, job.status());
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&] { return job->cut(); },
      .samples = 20,
      .target = Target{static_cast<double>((kCutLease + 100ms).count()), true},
      .note = fmt::format("a host of three is cut off without notice, until both others have "
                          "applied a step in a world of two; lease {} ms, heartbeat {} ms",
                          kCutLease.count(), kCutLease.count() / 10)});
}

void loss_row(Suite& suite) {
  const std::string name = "hosts/host_lost_ms";
  if (!suite.wants(name)) return;
  auto job = LossJob::start();
  if (job.status().code() == StatusCode::kUnavailable) {
    return suite.missing(name, job.status().to_string());
  }
  if (!job.ok()) return suite.failed(name, job.status());
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&] { return job->lose(); },
      .samples = 9,
      .target = Target{static_cast<double>((kLossLease + 100ms).count()), true},
      .note =
          fmt::format("a host of three dies with its etcd of three and its member, until both "
                      "others have applied a step in a world of two; a new job each time; lease "
                      "{} ms, the shortest of etcd",
                      kLossLease.count())});
}

// Reports what one processor forwards: a row over emulated links cannot show more.
void emulator_row(Suite& suite, uint64_t bytes) {
  const Network network = {.name = "hosts/machine/emulator",
                           .link = {.delay = 100us},
                           .bytes = bytes,
                           .pairs = 15,
                           .raw_target = {},
                           .tls_target = {},
                           .gloo_target = {},
                           .note = "through the link emulator, with a delay of 0.1 ms each way"};
  Lazy lazy(suite, {.hosts = 2, .link = network.link});
  raw_row(suite, lazy, network, 1);
}

// Compares other ways to move bytes with send() and recv() after poll().
void way_rows(Suite& suite, uint64_t bytes) {
  Lazy lazy(suite, {.hosts = 2});
  for (const char* const way : {"zerocopy", "io_uring"}) {
    const std::string name = fmt::format("hosts/machine/{}", way);
    Laboratory* const made = lazy.for_row(name);
    if (made == nullptr) continue;
    suite.measure(PairSpec{.name = name,
                           .unit = "Gbit/s",
                           .figure = gbit_per_s(bytes),
                           .subject = made->turn(fmt::format("by {} 1 {}", way, bytes)),
                           .limit = made->turn(raw_line(1, bytes)),
                           .limit_is = "raw TCP by send() and recv() after poll(), one stream",
                           .pairs = 30,
                           .warm_up = 1,
                           .note = "one stream each way; links without a limit"});
  }
}

void rows(Suite& suite) {
  const bool smoke = suite.options().smoke;  // leaves out what runs the same code once more
  const uint64_t bytes = smoke ? 1 << 20 : 64 << 20;
  latency_rows(suite, 2, true);
  if (!smoke) latency_rows(suite, 8, false);
  emulator_row(suite, bytes);
  way_rows(suite, bytes);
  rate_rows(suite,
            {"hosts/rate/2/1gbit", {.rate = 1e9}, bytes, 15, 0.9, 0.8, {}, "links of 1 Gbit/s"});
  if (!smoke) {
    rate_rows(
        suite,
        {"hosts/rate/2/10gbit", {.rate = 10e9}, bytes, 30, 0.9, 0.8, {}, "links of 10 Gbit/s"});
    rate_rows(suite,
              {"hosts/rate/2/unlimited", {}, bytes, 30, {}, {}, 1.5, "links without a limit"});
  }
  const std::string control = default_congestion_control();
  wan_rows(suite, "hosts/wan", control);
  // As most do, it takes each loss for a sign of a full link. Any network may choose it.
  if (!smoke && control != "reno") wan_rows(suite, "hosts/wan/reno", "reno");
  two_level_rows(suite);
  cut_row(suite);
  if (!smoke) loss_row(suite);
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 2 && std::string_view(argv[1]) == "--role") {
    if (std::string_view(argv[2]) == "cut") return play_cut_job();
    if (std::string_view(argv[2]) == "loss") return play_loss_job();
    return play_laboratory({argv + 3, argv + argc});
  }
  return Suite::run("hosts", argc, argv, rows);
}
