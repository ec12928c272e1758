#include "net/loop.h"

#include <utility>

#include "base/errors.h"

namespace ffdl::net {

Result<std::unique_ptr<Loop>> Loop::start(std::string name) {
  std::unique_ptr<Loop> loop;
  try {
    loop = std::unique_ptr<Loop>(new Loop());
    // Makes asio open its descriptors here, where its exceptions are caught.
    const asio::steady_timer first(loop->context_);
  } catch (const std::system_error& failure) {
    return base::make_error(StatusCode::kExhausted,
                            "start the network loop '{}': {}; raise 'ulimit -n', or close some "
                            "files",
                            name, failure.what());
  }
  FFDL_ASSIGN_OR_RETURN(loop->thread_,
                        base::Thread::start(name, [&context = loop->context_](const StopToken&) {
                          base::wake_promptly();
                          context.run();
                        }));
  return loop;
}

void Loop::post(std::function<void()> work) { asio::post(context_, std::move(work)); }

void Loop::stop() {
  context_.stop();
  thread_.join();
}

void Timer::start(Time at, std::function<void()> call) {
  const uint64_t mine = ++*started_;
  timer_.expires_at(at);
  timer_.async_wait(
      [started = started_, mine, call = std::move(call)](const asio::error_code& error) {
        if (!error && mine == *started) call();
      });
}

void Timer::cancel() {
  ++*started_;
  timer_.cancel();
}

}  // namespace ffdl::net
