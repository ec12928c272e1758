// Reads arbitrary bytes as the file of a cut. They are refused as corrupt, or make a whole cut.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "ffdl/ps/parameter_server.h"

namespace {

// Loads a file in memory with these bytes. With `sign` it has a valid checksum.
ffdl::Result<ffdl::ParameterServerCut> load(const uint8_t* data, size_t size, bool sign) {
  const int fd = memfd_create("fuzz_cut", MFD_CLOEXEC);
  FFDL_CHECK(fd >= 0, "memory files are there on every Linux");
  FFDL_CHECK(write(fd, data, size) == static_cast<ssize_t>(size), "memory takes small files");
  if (sign) {
    const XXH64_hash_t sum = XXH3_64bits(data, size);
    FFDL_CHECK(write(fd, &sum, sizeof sum) == sizeof sum, "memory takes small files");
  }
  auto cut = ffdl::ParameterServerCut::load("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  return cut;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool sign : {false, true}) {
    const auto cut = load(data, size, sign);
    if (!cut.ok()) {
      FFDL_CHECK(cut.status().code() == ffdl::StatusCode::kCorrupt, "the only thing wrong with it");
      continue;
    }
    for (const auto& values : cut->state) {
      FFDL_CHECK(values.size() == cut->weights.size(), "one value of state per weight");
    }
  }
  return 0;
}
