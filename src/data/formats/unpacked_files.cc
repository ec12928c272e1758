#include "data/formats/unpacked_files.h"

#include <algorithm>
#include <utility>

namespace ffdl::data {

Result<UnpackedFiles::FilePtr> UnpackedFiles::get(size_t number, const Unpack& unpack) {
  const base::MutexLock lock(mutex_);
  while (Entry* entry = find(number)) {
    if (entry->file != nullptr) {
      std::rotate(entry, entry + 1, entries_.data() + entries_.size());
      return entries_.back().file;
    }
    unpacked_one_.wait(mutex_);
  }
  entries_.push_back({number, nullptr});
  auto made = unpack_unlocked(unpack);
  unpacked_one_.notify_all();
  if (!made.ok()) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.number == number; });
    return std::move(made).status();
  }
  auto file = std::make_shared<const UnpackedFile>(std::move(*made));
  find(number)->file = file;
  bytes_ += file->bytes.capacity();
  while (bytes_ > limit_ && bytes_ > file->bytes.capacity()) drop_oldest(number);
  return file;
}

Result<UnpackedFile> UnpackedFiles::unpack_unlocked(const Unpack& unpack) {
  mutex_.unlock();
  auto made = unpack();
  mutex_.lock();
  ++unpacked_;
  return made;
}

UnpackedFiles::Entry* UnpackedFiles::find(size_t number) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.number == number; });
  return found == entries_.end() ? nullptr : &*found;
}

// Drops the least recently used file. One exists, since its bytes are counted.
void UnpackedFiles::drop_oldest(size_t but) {
  const auto oldest = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.file != nullptr && entry.number != but;
  });
  bytes_ -= oldest->file->bytes.capacity();
  entries_.erase(oldest);
}

uint64_t UnpackedFiles::bytes() const {
  const base::MutexLock lock(mutex_);
  return bytes_;
}

uint64_t UnpackedFiles::unpacked() const {
  const base::MutexLock lock(mutex_);
  return unpacked_;
}

}  // namespace ffdl::data
