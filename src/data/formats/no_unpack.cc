#include "base/errors.h"
#include "data/formats/unpack.h"

// Replaces unpack.cc and gunzip.cc if FFDL_WITH_ARCHIVE is off.
namespace ffdl::data {

Result<Unpacked> unpack(const InputFile& file, Packing, const UnpackLimits&) {
  return base::make_error(
      StatusCode::kUnimplemented,
      "unpack '{}': this build reads no compressed files; build ffdl with "
      "-DFFDL_WITH_ARCHIVE=ON (Debian: libarchive-dev zlib1g-dev), or unpack it",
      file.path());
}

}  // namespace ffdl::data
