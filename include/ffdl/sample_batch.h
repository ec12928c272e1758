#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/sample_memory.h"

namespace ffdl {

// Samples that were read: each where it lies in a mapped file, in memory of this object, or in that
// of who called DataSource::read_into().
// Threads: one at a time.
class FFDL_API SampleBatch {
 public:
  SampleBatch() = default;
  // Its own memory is from there, which outlives it.
  explicit SampleBatch(SampleMemory* memory) : memory_(memory) {}

  size_t size() const { return samples_.size(); }
  std::span<const std::byte> operator[](size_t i) const { return samples_[i]; }
  bool is_skipped(size_t i) const { return samples_[i].data() == nullptr; }
  // All of them; those that are left out have no data.
  std::span<const std::span<const std::byte>> samples() const { return samples_; }
  size_t skipped() const { return skipped_; }
  // Keeps the memory for what comes next.
  void clear();

  // For sources: a sample that stays where it is as long as the source does, or lies in what
  // allocate() or place() gave; or one that is left out.
  void add(std::span<const std::byte> sample) {
    samples_.push_back(sample.data() == nullptr ? std::span(&kNowhere, 0) : sample);
    if (puts_) put_from(samples_.size() - 1);
  }
  // The same for many, which is faster: sample i of them is sample(i).
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
  // For sources of tiny samples: these bytes, all of which may be read, hold samples of this batch
  // in another order than that of their use. They are read from front to end before the first of
  // them is used, which is faster than to wait for the memory of each.
  void add_stretch(std::span<const std::byte> bytes) { stretches_.push_back(bytes); }
  std::span<const std::span<const std::byte>> stretches() const { return stretches_; }
  // For sources that read in another order than they were asked: what is added between these two
  // calls is put in order by the second: the one at first + places[i] comes to first + i.
  struct Arranging {
    size_t first = 0;
  };
  Arranging begin_arranging();
  void arrange(Arranging begun, std::span<const size_t> places);
  // Memory until clear(), at a multiple of 16.
  std::span<std::byte> allocate(size_t bytes);
  // The same for samples that lie in it from front to end and are what is added next, in this
  // order: where the caller of read_into() wants them, if that is known. At no multiple of anything
  // then. What lies between them, or is left out, costs a copy of all that follow.
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
  // What the samples have together, whether or not there was room for them.
  size_t end_in();
  void put_from(size_t first);

  static constexpr std::byte kNowhere{};  // where one without bytes lies, which is not left out
  SampleMemory* memory_ = nullptr;
  std::vector<std::span<const std::byte>> samples_{};
  std::vector<Chunk> chunks_{};
  std::vector<std::span<const std::byte>> stretches_{};
  size_t skipped_ = 0;
  size_t arranging_ = 0;  // calls of begin_arranging() without their arrange()
  // Between begin_in() and end_in():
  bool is_in_ = false;
  bool puts_ = false;  // what is added comes to its place at once
  std::span<std::byte> to_{};
  size_t put_ = 0;     // bytes of the samples until now; beyond `to_` they stay where they are
  size_t placed_ = 0;  // up to there of `to_`
};

}  // namespace ffdl
