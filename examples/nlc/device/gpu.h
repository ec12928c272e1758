#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ffdl/status.h"
#include "nlc/device/row_threads.h"

namespace nlc {

using Stream = void*;  // a cudaStream_t

using GpuMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
using OwnedStream = std::unique_ptr<void, std::function<void(Stream)>>;

// The functions of a GPU that the classifier uses beside cuBLAS and cuDNN. An object, so that tests
// can replace it by a device whose memory is the host's.
// Threads: one at a time. Errors: kUnimplemented (this machine has no GPU that can be used),
// kExhausted (its memory is full), else kInternal.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual ffdl::Result<GpuMemory> allocate(std::size_t bytes) = 0;
  // Allocates memory of the host. Copies from and to it do not block the caller.
  virtual ffdl::Result<GpuMemory> allocate_pinned(std::size_t bytes) = 0;
  virtual ffdl::Result<OwnedStream> make_stream() = 0;

  // Copies in either direction between host and GPU, in the order of `stream`.
  virtual ffdl::Status copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  // Blocks until all work on `stream` is done.
  virtual ffdl::Status wait(Stream stream) = 0;

  virtual ffdl::Status run(const SumRows& sum, Stream stream) = 0;
  virtual ffdl::Status run(const TakeLoss& take, Stream stream) = 0;
  virtual ffdl::Status run(const SpreadRows& spread, Stream stream) = 0;
};

// Opens this machine's GPU and loads the driver.
ffdl::Result<std::unique_ptr<Gpu>> open_gpu();

}  // namespace nlc
