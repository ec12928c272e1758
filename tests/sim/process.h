#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ffdl/types.h"
#include "sim/faulty_store.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// A process of the simulated job, as the adversary, the launcher and the checker see it. The
// derived class starts its one task, and joins it before anything else of it is destroyed.
class Process {
 public:
  Process(SimNode& node, std::unique_ptr<FaultyStore> store, std::string id,
          std::string takes_over_from)
      : node_(node),
        store_(std::move(store)),
        id_(std::move(id)),
        takes_over_from_(std::move(takes_over_from)) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& id() const { return id_; }
  const std::string& takes_over_from() const { return takes_over_from_; }
  SimNode& node() { return node_; }
  const SimNode& node() const { return node_; }
  FaultyStore& store() { return *store_; }
  bool has_ended() const { return has_ended_; }
  void ask_to_leave() { is_leaving_ = true; }
  bool is_leaving() const { return is_leaving_; }
  // Returns the member of the present life; null between two lives.
  virtual const Member* self() const = 0;
  virtual bool may_use_state() const = 0;
  // Returns the number of steps that the present life has applied.
  virtual uint64_t applied_steps() const { return 0; }
  // Returns true if this process has applied its last step, and ends its training.
  virtual bool is_finishing() const { return false; }

 protected:
  SimNode& node_;
  const std::unique_ptr<FaultyStore> store_;
  const std::string id_;
  const std::string takes_over_from_;
  bool is_leaving_ = false;
  bool has_ended_ = false;
};

}  // namespace ffdl::sim
