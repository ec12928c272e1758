#include "comm/operation/world_key.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ffdl::comm {
namespace {

// Begins keys of a job as those of its membership begin. The name of a job is not empty, so a world
// without a job has separate keys.
std::string key_of(const World& world, std::string_view topic) {
  const std::string root = world.job.empty() ? std::string() : fmt::format("ffdl/{}/", world.job);
  return fmt::format("{}{}/{}/{:016x}", root, topic, world.generation, world_hash(world));
}

}  // namespace

uint64_t world_hash(const World& world) {
  std::string text = fmt::format("{}:{};", world.job.size(), world.job);
  for (const Member& member : world.members) {
    text += fmt::format("{}:{}:{};", member.id.size(), member.id, member.incarnation);
  }
  return XXH3_64bits(text.data(), text.size());
}

uint64_t job_hash(const World& world) { return XXH3_64bits(world.job.data(), world.job.size()); }

std::string meeting_key(const World& world) { return key_of(world, "comm"); }

std::string ring_key(const World& world) { return key_of(world, "listen"); }

std::string name_of(const World& world) {
  if (world.job.empty()) return fmt::format("generation {}", world.generation);
  return fmt::format("generation {} of job '{}'", world.generation, world.job);
}

}  // namespace ffdl::comm
