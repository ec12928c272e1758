#include "elastic/session/store_task.h"

#include <utility>

#include "base/check.h"

namespace ffdl::elastic {

bool StoreTask::start(std::string name, Write write) {
  FFDL_CHECK(!task_, "one write at a time");
  done_->reset();
  has_failed_.store(false, std::memory_order_relaxed);  // read by this thread and the next task
  task_ = runtime_.spawn(std::move(name), [this, write = std::move(write)](const StopToken& stop) {
    outcome_ = write(stop);
    // release: a thread that sees the failure sees the outcome
    has_failed_.store(!outcome_.ok(), std::memory_order_release);
    done_->set();
  });
  return task_ != nullptr;
}

}  // namespace ffdl::elastic
