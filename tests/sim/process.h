#pragma once

#include <string>

#include "ffdl/types.h"
#include "sim/faulty_store.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// A process of the simulated job, as the adversary, the launcher and the checker see it.
class Process {
 public:
  virtual ~Process() = default;

  virtual const std::string& id() const = 0;
  virtual SimNode& node() = 0;
  virtual FaultyStore& store() = 0;
  virtual bool has_ended() const = 0;
  virtual void ask_to_leave() = 0;
  virtual bool is_leaving() const = 0;
  // The life that it is in; none between two.
  virtual const Member* self() const = 0;
  virtual bool may_use_state() const = 0;
};

}  // namespace ffdl::sim
