// Uses ffdl as any program would; says so and ends with 0 when that works.
#include <cstdio>

#include "ffdl/ffdl.h"

int main() {
  auto task_has_run = ffdl::system_runtime().make_event();
  auto task = ffdl::system_runtime().spawn("hello", [&](ffdl::StopToken) { task_has_run->set(); });
  if (!task_has_run->wait_until(ffdl::deadline_in(std::chrono::seconds(10)))) return 1;
  const ffdl::Status status(ffdl::StatusCode::kTimeout, "text");
  std::printf("ffdl %s: %s\n", FFDL_VERSION_STRING, status.to_string().c_str());
  return status.ok() ? 1 : 0;
}
