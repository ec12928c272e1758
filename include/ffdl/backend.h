#pragma once

#include <cstdint>

namespace ffdl {

// How the members of a communicator reach each other.
enum class Backend : uint32_t {
  kAuto,          // to be found out: kShm where all share memory, else kHierarchical
  kShm,           // shared memory of one host
  kGloo,          // TCP connections, also inside a host
  kHierarchical,  // shared memory inside a host, TCP between hosts
  kLocal,         // the threads of one process: make_local_communicators()
  kNccl,          // NVIDIA's GPUs through NCCL, beside what kAuto finds out for the hosts
  kDeviceShm,     // GPUs of one host through memory of theirs, up to 8 ranks; several may have one
};

// Whether its operations take buffers in a GPU's memory.
inline bool reaches_devices(Backend backend) {
  return backend == Backend::kNccl || backend == Backend::kDeviceShm;
}

// When kNccl connects the GPUs of a job's next world.
enum class GpuWorlds : uint32_t {
  kAnew,     // from nothing, while the present world works: nobody waits
  kDerived,  // in continue_from(): grown or shrunk out of the present world where NCCL can, else
             // from nothing; all wait for it
};

}  // namespace ffdl
