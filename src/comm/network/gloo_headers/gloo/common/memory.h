#pragma once

#include <memory>

// Replaces the one header that gloo's headers of pairs include and that Debian's package lacks. If
// the package has it, that one is found first. Only the layout matters here: gloo's library
// contains the compiled code that uses these pointers.
namespace gloo {

template <class T>
class NonOwningPtr final {
  std::shared_ptr<T> ptr_;
};

template <class T>
class WeakNonOwningPtr final {
  std::weak_ptr<T> ptr_;
};

}  // namespace gloo
