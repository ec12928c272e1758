#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ffdl/types.h"
#include "sim/faulty_store.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// A process of the simulated job, as the adversary, the launcher and the checker see it. Its one
// task is the derived class's to start, and to join before anything else of it goes.
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
  FaultyStore& store() { return *store_; }
  bool has_ended() const { return has_ended_; }
  void ask_to_leave() { is_leaving_ = true; }
  bool is_leaving() const { return is_leaving_; }
  // The life that it is in; none between two.
  virtual const Member* self() const = 0;
  virtual bool may_use_state() const = 0;

 protected:
  SimNode& node_;
  const std::unique_ptr<FaultyStore> store_;
  const std::string id_;
  const std::string takes_over_from_;
  bool is_leaving_ = false;
  bool has_ended_ = false;
};

}  // namespace ffdl::sim
