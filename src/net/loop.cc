#include "net/loop.h"

#include <utility>

#include "base/errors.h"

namespace ffdl::net {

Result<std::unique_ptr<Loop>> Loop::start(std::string name) {
  std::unique_ptr<Loop> loop;
  try {
    loop = std::unique_ptr<Loop>(new Loop());
  } catch (const std::system_error& failure) {
    return base::make_error(StatusCode::kUnavailable,
                            "start the network loop '{}': {}; raise the limit of open files", name,
                            failure.what());
  }
  loop->thread_ = base::Thread(std::move(name), [&context = loop->context_](const StopToken&) {
    base::wake_promptly();
    context.run();
  });
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
