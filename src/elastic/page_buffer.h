#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ffdl::elastic {

// Memory that begins at a page, in huge pages where the system gives them: what lies in it a disk
// takes without a copy, and few entries of the page table have to be made and looked up.
class PageBuffer {
 public:
  // At least so many bytes, of undefined content. Where there are as many already they stay as they
  // are, with the pages that were touched.
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
