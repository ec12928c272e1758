#include "data/formats/block_reader.h"

#include <algorithm>
#include <utility>

#include "data/formats/read_all.h"

namespace ffdl::data {

BlockReader::BlockReader(const DataSource& source, const SampleLedger& ledger,
                         const DataPipelineOptions& options)
    : source_(source),
      ledger_(ledger),
      memory_(options.memory),
      one_buffer_(options.contiguous && options.threads > 0) {
  for (int i = 0; i < options.threads; ++i) {
    auto thread = base::Thread::start("ffdl-read", [this](const StopToken&) { run(); });
    begun_ = thread.status();
    if (!thread.ok()) return;
    threads_.push_back(std::move(thread).value());
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

BlockReader::BlockPtr BlockReader::get(const SampleRange& part) {
  const base::MutexLock lock(mutex_);
  BlockPtr found;
  SampleRange alone = part;
  for (const BlockPtr& block : blocks_) {
    const SampleRange& range = block->range;
    if (range.partition != part.partition || range.end <= part.begin) continue;
    if (range.begin <= part.begin) {
      found = block;
    } else {
      alone.end = std::min(alone.end, range.begin);
    }
  }
  if (found == nullptr) found = blocks_.emplace_back(make_block(alone));
  found->used = true;
  if (found->state != Block::State::kReady) ++counts_.waited;
  if (found->state == Block::State::kWanted) read_unlocked(found);
  while (found->state != Block::State::kReady) ready_.wait(mutex_);
  return found;
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
    block = std::make_shared<Block>(memory_);
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
  // The reading thread releases the block under the mutex, so a count of 1 means that this is the
  // only owner.
  if (block.use_count() == 1 && spare_.size() <= blocks_.size()) spare_.push_back(std::move(block));
}

Status BlockReader::fill(Block& block) const {
  block.memory.clear();
  block.samples = {};
  block.touched = one_buffer_;  // contiguous samples are in the order of use
  FFDL_ASSIGN_OR_RETURN(block.indices, ledger_.sample_indices(std::span(&block.range, 1)));
  FFDL_RETURN_IF_ERROR(read_all(source_, block.indices, block.memory));
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

}  // namespace ffdl::data
