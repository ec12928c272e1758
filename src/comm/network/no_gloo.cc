#include "base/errors.h"
#include "comm/network/links.h"

// Replaces gloo_links.cc if FFDL_WITH_GLOO is off.
namespace ffdl::comm {

Status have_gloo() {
  return base::make_error(StatusCode::kUnimplemented,
                          "connect by gloo: this build has no gloo; use the backend tcp, or build "
                          "ffdl with -DFFDL_WITH_GLOO=ON (Debian: libgloo-dev)");
}

Result<MetLinks> connect_gloo_links(const World&, Store&, Time, const std::string&,
                                    const CommunicatorOptions&) {
  return have_gloo();
}

}  // namespace ffdl::comm
