#include "base/thread.h"

#include <pthread.h>

namespace ffdl::base {

Thread::Thread(std::string name, std::function<void(StopToken)> body)
    : thread_([name = std::move(name), body = std::move(body)](StopToken stop) {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body(std::move(stop));
      }) {}

}  // namespace ffdl::base
