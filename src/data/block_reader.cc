#include "data/block_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

namespace ffdl::data {

BlockReader::BlockReader(const DataSource& source, const SampleLedger& ledger, int threads,
                         bool one_buffer)
    : source_(source), ledger_(ledger), one_buffer_(one_buffer) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back("ffdl-read", [this](const StopToken&) { run(); });
  }
}

BlockReader::~BlockReader() {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
    wanted_.notify_all();
  }
  for (base::Thread& thread : threads_) thread.join();
}

std::vector<SampleRange> BlockReader::known() const {
  const base::MutexLock lock(mutex_);
  std::vector<SampleRange> ranges;
  for (const BlockPtr& block : blocks_) ranges.push_back(block->range);
  return ranges;
}

void BlockReader::want(const std::vector<PlannedBlock>& plan) {
  const base::MutexLock lock(mutex_);
  std::vector<BlockPtr> kept(plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].known >= 0) kept[i] = std::move(blocks_[static_cast<size_t>(plan[i].known)]);
  }
  for (BlockPtr& block : blocks_) {
    if (block != nullptr) drop(std::move(block));
  }
  blocks_ = std::move(kept);
  bool is_new = false;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (blocks_[i] != nullptr) continue;
    blocks_[i] = make_block(plan[i].range);
    is_new = true;
  }
  if (is_new) wanted_.notify_all();
}

BlockReader::BlockPtr BlockReader::get(uint32_t partition, uint64_t position) {
  const base::MutexLock lock(mutex_);
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const BlockPtr& block) {
    return block->range.partition == partition && block->range.begin <= position &&
           position < block->range.end;
  });
  FFDL_CHECK(found != blocks_.end(), "what is taken is planned");
  BlockPtr block = *found;
  block->used = true;
  if (block->state != Block::State::kReady) ++counts_.waited;
  if (block->state == Block::State::kWanted) read_unlocked(block);
  while (block->state != Block::State::kReady) ready_.wait(mutex_);
  return block;
}

BlockReader::BlockPtr BlockReader::retry(const BlockPtr& failed, const SampleRange& part) {
  const base::MutexLock lock(mutex_);
  std::erase(blocks_, failed);
  BlockPtr block = make_block(part);
  block->used = true;
  blocks_.push_back(block);
  ++counts_.waited;
  read_unlocked(block);
  return block;
}

void BlockReader::forget(const BlockPtr& block) {
  const base::MutexLock lock(mutex_);
  std::erase(blocks_, block);
}

BlockReader::Counts BlockReader::counts() const {
  const base::MutexLock lock(mutex_);
  return counts_;
}

void BlockReader::run() {
  const base::MutexLock lock(mutex_);
  while (!stopping_) {
    if (const BlockPtr block = first_wanted()) {
      read_unlocked(block);
    } else {
      wanted_.wait(mutex_);
    }
  }
}

void BlockReader::read_unlocked(const BlockPtr& block) {
  block->state = Block::State::kReading;
  mutex_.unlock();
  block->status = fill(*block);
  mutex_.lock();
  block->state = Block::State::kReady;
  ++counts_.read;
  ready_.notify_all();
}

BlockReader::BlockPtr BlockReader::first_wanted() const {
  for (const BlockPtr& block : blocks_) {
    if (block->state == Block::State::kWanted) return block;
  }
  return nullptr;
}

BlockReader::BlockPtr BlockReader::make_block(const SampleRange& range) {
  BlockPtr block;
  if (spare_.empty()) {
    block = std::make_shared<Block>();
  } else {
    block = std::move(spare_.back());
    spare_.pop_back();
  }
  block->range = range;
  block->state = Block::State::kWanted;
  block->used = false;
  return block;
}

void BlockReader::drop(BlockPtr block) {
  if (block->state == Block::State::kReady && !block->used) ++counts_.not_needed;
  // The thread that reads it lets go of it under the mutex: a count of 1 is this one.
  if (block.use_count() == 1 && spare_.size() <= blocks_.size()) spare_.push_back(std::move(block));
}

Status BlockReader::fill(Block& block) const {
  block.memory.clear();
  block.samples = {};
  block.touched = one_buffer_;  // they will lie in the order of their use
  FFDL_ASSIGN_OR_RETURN(block.indices, ledger_.sample_indices(std::span(&block.range, 1)));
  FFDL_RETURN_IF_ERROR(source_.read(block.indices, block.memory));
  if (block.memory.size() != block.indices.size()) {
    return base::invalid_argument(
        "read {} samples: the data source gave {}; let its read() add or skip one for each",
        block.indices.size(), block.memory.size());
  }
  block.samples = block.memory.samples();
  block.skipped = block.memory.skipped();
  if (!one_buffer_) return {};
  block.together.assign(block.samples.begin(), block.samples.end());
  put_together(block.together, block.memory);
  block.samples = block.together;
  return {};
}

void touch(Block& block) {
  constexpr size_t kLine = 64;
  if (std::exchange(block.touched, true)) return;
  for (const std::span<const std::byte> stretch : block.memory.stretches()) {
    for (size_t at = 0; at < stretch.size(); at += kLine) {
      static_cast<void>(*static_cast<const volatile std::byte*>(stretch.data() + at));
    }
  }
}

std::span<const std::byte> put_together(std::vector<std::span<const std::byte>>& samples,
                                        SampleBatch& memory) {
  const std::byte* begin = nullptr;
  size_t bytes = 0;
  bool together = true;
  for (const auto& sample : samples) {
    if (sample.empty()) continue;
    if (begin == nullptr) begin = sample.data();
    together = together && sample.data() == begin + bytes;
    bytes += sample.size();
  }
  if (together) return {begin, bytes};
  const std::span<std::byte> buffer = memory.allocate(bytes);
  size_t at = 0;
  for (auto& sample : samples) {
    if (sample.empty()) continue;
    std::memcpy(buffer.data() + at, sample.data(), sample.size());
    sample = buffer.subspan(at, sample.size());
    at += sample.size();
  }
  return buffer;
}

}  // namespace ffdl::data
