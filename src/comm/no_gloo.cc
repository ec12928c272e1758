#include "base/errors.h"
#include "comm/links.h"

// In place of gloo_links.cc where FFDL_WITH_GLOO is off.
namespace ffdl::comm {

Status have_links() {
  return base::make_error(StatusCode::kUnimplemented,
                          "connect across hosts: this build has no gloo; build ffdl with "
                          "-DFFDL_WITH_GLOO=ON (Debian: libgloo-dev)");
}

Result<std::unique_ptr<Links>> connect_links(const World&, Store&, Time, const std::string&) {
  return have_links();
}

}  // namespace ffdl::comm
