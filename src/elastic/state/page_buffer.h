#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ffdl::elastic {

// Memory that begins at a page, in huge pages if the system grants them. A disk takes its content
// without a copy. It needs few entries of the page table.
class PageBuffer {
 public:
  // Reserves at least `bytes`, of undefined content. Memory of that size stays as it is, with the
  // pages that were touched.
  void reserve(uint64_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  uint64_t bytes_ = 0;
};

}  // namespace ffdl::elastic
