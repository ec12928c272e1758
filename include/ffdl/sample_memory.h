#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ffdl/export.h"

namespace ffdl {

namespace base {
class DeviceSide;
}

// Where samples are read to: memory of your own, such as what a network card knows, or
// PinnedMemory. DataPipelineOptions::memory names it.
// Threads: any; a DataPipeline asks on those that read, and on that of next().
class FFDL_API SampleMemory {
 public:
  virtual ~SampleMemory() = default;

  // At least so many bytes, more than 0, at a multiple of 16: all of what it gives is used. Nothing
  // where it has no more; then they come from the heap.
  virtual std::span<std::byte> allocate(size_t bytes) = 0;
  // What allocate() gave, in which nothing is read or written any more.
  virtual void give_back(std::span<std::byte> memory) = 0;
};

// Pinned, where there is a GPU: copies to it do not wait, and its copy engines make them alone.
// Where there is none, or once the system lets no more be pinned, it is memory like any other: that
// works all the same, slower, and the log says so once.
// Threads: any.
// Owns: what is pinned, but not the memory: who was given it gives it back before this goes. A copy
//       from it has ended by then.
// Blocks: allocate() while pages are pinned, which may hold up the GPU as well.
class FFDL_API PinnedMemory final : public SampleMemory {
 public:
  // For the GPU that this thread uses. `devices`: another machine's, for tests; outlives this.
  explicit PinnedMemory(base::DeviceSide* devices = nullptr);
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Whole pages, 1 MiB or more.
  std::span<std::byte> allocate(size_t bytes) override;
  void give_back(std::span<std::byte> memory) override;

  uint64_t pinned_bytes() const;  // at present
  // Why memory could not be pinned; empty where it is.
  std::string not_pinned() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
