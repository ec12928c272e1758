#pragma once

#include <cstdint>
#include <string>

#include "ffdl/types.h"

// Names a world among all worlds of one store and one host.
namespace ffdl::comm {

// Hashes the job and the members of a world, in their order.
uint64_t world_hash(const World& world);
// Hashes the job alone.
uint64_t job_hash(const World& world);

// Returns the key under which the members of a world, or of a part of it, meet. Every key of the
// module begins with it.
std::string meeting_key(const World& world);
// Returns the key under which rank 0 publishes the ring of sums to subscribers.
std::string ring_key(const World& world);

// Returns "generation 3" or "generation 3 of job 'a'".
std::string name_of(const World& world);

}  // namespace ffdl::comm
