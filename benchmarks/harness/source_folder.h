#pragma once

namespace ffdl::bench {

// The folder of the sources that this program was built from, for the peers and the commit. It is
// no macro: a compiler's cache then serves other folders too.
extern const char* const kSourceFolder;

}  // namespace ffdl::bench
