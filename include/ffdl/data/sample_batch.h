#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"

namespace ffdl {

namespace base {
class DeviceSide;
}

// An allocator of memory for samples: PinnedMemory, or the caller's own, such as one of memory that
// is registered with a network card. DataPipelineOptions::memory selects it.
// Threads: any; a DataPipeline calls it on its reading threads and on the thread of next().
class FFDL_API SampleMemory {
 public:
  virtual ~SampleMemory() = default;

  // Returns at least this many bytes (more than 0), aligned to 16; all of them may be used. Returns
  // an empty span if it has no more; SampleBatch then uses the heap.
  virtual std::span<std::byte> allocate(size_t bytes) = 0;
  // Frees memory that allocate() returned, and that is no longer read or written.
  virtual void give_back(std::span<std::byte> memory) = 0;
};

// Pinned memory, if there is a GPU. Copies from it to the GPU do not block, and the GPU's copy
// engines make them without the CPU. Without a GPU, or once the system refuses to pin more, it is
// ordinary memory. Copies then work, but slower, and the log reports it once.
// Threads: any.
// Owns: the pinning, not the memory. Before the destructor all memory must be given back, and all
//       copies from it must have ended.
// Blocks: allocate() while pages are pinned, which may also delay the GPU.
class FFDL_API PinnedMemory final : public SampleMemory {
 public:
  // Pins for the GPU that this thread uses. `devices`: GPUs for tests, which outlive this object.
  explicit PinnedMemory(base::DeviceSide* devices = nullptr);
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Returns whole pages, 1 MiB or more.
  std::span<std::byte> allocate(size_t bytes) override;
  void give_back(std::span<std::byte> memory) override;

  uint64_t pinned_bytes() const;  // at present
  // Returns why memory could not be pinned, or an empty string.
  std::string not_pinned() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Samples that were read. Each sample is in a mapped file, in memory of this object, or in the
// memory that was passed to DataSource::read_into().
// Threads: one at a time.
class FFDL_API SampleBatch {
 public:
  SampleBatch() = default;
  // Allocates its memory from `memory`, which must outlive the batch.
  explicit SampleBatch(SampleMemory* memory) : memory_(memory) {}

  size_t size() const { return samples_.size(); }
  std::span<const std::byte> operator[](size_t i) const { return samples_[i]; }
  bool is_skipped(size_t i) const { return samples_[i].data() == nullptr; }
  // Returns all samples; a sample that is left out has a null data().
  std::span<const std::span<const std::byte>> samples() const { return samples_; }
  size_t skipped() const { return skipped_; }
  // Removes the samples. Keeps the memory for the next samples.
  void clear();

  // Adds a sample; for sources. Its bytes must stay valid as long as the source, or be in memory of
  // allocate() or place(). A null span is a sample of 0 bytes; skip() leaves a sample out.
  void add(std::span<const std::byte> sample) {
    samples_.push_back(sample.data() == nullptr ? std::span(&kNowhere, 0) : sample);
    if (puts_) put_from(samples_.size() - 1);
  }
  // Adds many samples, which is faster than one by one. The function sample(i) returns the i-th.
  template <class Sample>
  void add_each(size_t count, Sample&& sample) {
    const size_t first = samples_.size();
    samples_.resize(first + count);
    for (size_t i = 0; i < count; ++i) {
      const std::span<const std::byte> one = sample(i);
      samples_[first + i] = one.data() == nullptr ? std::span(&kNowhere, 0) : one;
    }
    if (puts_) put_from(first);
  }
  void skip() {
    samples_.emplace_back();
    ++skipped_;
  }
  // Adds a range of bytes that contains samples of this batch, but not in the order of their use;
  // for sources of tiny samples. All of the range may be read. Before the first of these samples is
  // used, the range is read from front to end. This is faster than one memory access after another.
  void add_stretch(std::span<const std::byte> bytes) { stretches_.push_back(bytes); }
  std::span<const std::span<const std::byte>> stretches() const { return stretches_; }
  // Reorders samples; for sources that read in another order than the requested one.
  // begin_arranging() returns `first`, the number of samples so far. arrange() reorders the samples
  // added since then: sample first + places[i] moves to first + i.
  size_t begin_arranging();
  void arrange(size_t first, std::span<const size_t> places);
  // Returns memory that is valid until clear(), aligned to 16 bytes.
  std::span<std::byte> allocate(size_t bytes);
  // Returns memory for the samples that are added next, which fill it from front to end in the
  // order in which they are added. If the destination of read_into() is known, the memory is there,
  // and not aligned. A gap between samples, or a sample left out, costs a copy of all later
  // samples.
  std::span<std::byte> place(size_t bytes);

 private:
  friend class DataSource;
  struct GiveBack {
    SampleMemory* memory = nullptr;  // null: the heap
    size_t size = 0;
    void operator()(std::byte* bytes) const;
  };
  struct Chunk {
    std::unique_ptr<std::byte[], GiveBack> bytes;
    size_t used = 0;

    size_t size() const { return bytes.get_deleter().size; }
  };
  Chunk new_chunk(size_t bytes) const;
  void begin_in(std::span<std::byte> to);
  // Returns the total size of the samples, whether or not there was room for them.
  size_t end_in();
  void put_from(size_t first);

  static constexpr std::byte kNowhere{};  // the address of an empty sample that is not left out
  SampleMemory* memory_ = nullptr;
  std::vector<std::span<const std::byte>> samples_{};
  std::vector<Chunk> chunks_{};
  std::vector<std::span<const std::byte>> stretches_{};
  size_t skipped_ = 0;
  size_t arranging_ = 0;  // calls of begin_arranging() without their arrange()
  // Between begin_in() and end_in():
  bool is_in_ = false;
  bool puts_ = false;  // added samples are moved to their place at once
  std::span<std::byte> to_{};
  size_t put_ = 0;     // bytes of the samples so far; those beyond `to_` are not moved
  size_t placed_ = 0;  // end of the used part of `to_`
};

}  // namespace ffdl
