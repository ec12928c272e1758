#pragma once

#include <functional>
#include <optional>

#include "ffdl/store.h"
#include "sim/mutants.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// The faults of the network to the store, the same for all. They change while the simulation runs.
struct Faults {
  Duration delay_max{};  // longest delay of a request and of its reply
  double lose_request = 0;
  double lose_reply = 0;  // after the effect
  bool store_is_away = false;
};

// The access of one process to the shared store: slow, lossy, cut off, and closed once the process
// is killed.
class FaultyStore final : public Store {
 public:
  // Receives every write of the world's record that took effect: the revision that its writer had
  // read, and the new entry.
  using OnWorld = std::function<void(Revision expected, const Entry& entry)>;

  // `clock` is the node whose time the inner store uses.
  FaultyStore(Store& inner, SimNode& clock, SimRuntime& runtime, SimNode& node,
              const Faults& faults, Mutant mutant, OnWorld on_world)
      : inner_(inner),
        clock_(clock),
        runtime_(runtime),
        node_(node),
        faults_(faults),
        mutant_(mutant),
        on_world_(std::move(on_world)) {}

  void cut_off_until(Duration at) { cut_off_until_ = at; }

  // Returns true if the member has renewed its lease within that time, by its own clock. Its life
  // is not past its fence then.
  bool has_renewed_within(Duration fence_after) const {
    return renewed_ && node_.now() < *renewed_ + fence_after;
  }

  bool is_cut_off() const { return faults_.store_is_away || runtime_.elapsed() < cut_off_until_; }

  Result<Entry> get(std::string_view key) override;
  Result<std::vector<Entry>> list(std::string_view prefix) override;
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override;
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override;
  Status remove(std::string_view key) override;
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override;
  Result<LeaseId> grant_lease(Duration ttl) override;
  Status keep_alive(LeaseId lease) override;
  Status end_lease(LeaseId lease) override;

 private:
  // Runs `operation` on the store with the faults around it.
  template <class Operation>
  auto call(Operation&& operation) -> decltype(operation());
  Result<Revision> write_world(std::string_view key, Revision expected, std::string_view value);
  Status reach();

  Store& inner_;
  SimNode& clock_;
  SimRuntime& runtime_;
  SimNode& node_;
  const Faults& faults_;
  const Mutant mutant_;
  const OnWorld on_world_;
  Duration cut_off_until_{};
  std::optional<Time> renewed_;
};

}  // namespace ffdl::sim
