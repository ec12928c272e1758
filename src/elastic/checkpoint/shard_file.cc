#include "elastic/checkpoint/shard_file.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/state/hash.h"

namespace ffdl::elastic {
namespace {

std::string hash_key(std::string_view name) { return fmt::format("xxh3:{}", name); }
std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

uint64_t hash_of_text(std::string_view text) {
  Hash hash;
  hash.add(text.data(), text.size());
  return hash.digest();
}

std::string in_file(const std::string& path) {
  return fmt::format("read checkpoint file '{}'", path);
}

// Writes a part to the file, beginning at `offset`.
class PartWriter {
 public:
  PartWriter(OutputFile& file, uint64_t offset, bool must_hash)
      : file_(file), offset_(offset), must_hash_(must_hash) {}

  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const uint64_t left_of_piece = base::kShardWriteBytes - offset_ % base::kShardWriteBytes;
      const auto piece = bytes.first(std::min(left_of_piece, bytes.size()));
      if (must_hash_) hash_.add(piece.data(), piece.size());
      FFDL_RETURN_IF_ERROR(file_.write(offset_, piece));
      offset_ += piece.size();
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }
  uint64_t hash() const { return hash_.digest(); }

 private:
  OutputFile& file_;
  uint64_t offset_;
  const bool must_hash_;
  Hash hash_;
};

std::span<const std::byte> bytes_in(const Buffer& piece) {
  return {static_cast<const std::byte*>(piece.data), bytes_of(piece)};
}

// Writes a part and returns its hash.
Result<uint64_t> write_part(OutputFile& file, uint64_t offset, const ShardPart& part,
                            UserMemory* memory) {
  PartWriter writer(file, offset, !part.hash);
  // The data is only read.
  const Buffer whole = {const_cast<void*>(part.data), part.count, part.dtype};
  if (memory == nullptr) {
    FFDL_RETURN_IF_ERROR(writer.write(bytes_in(whole)));
  } else {
    FFDL_RETURN_IF_ERROR(memory->visit({&whole, 1}, Access::kRead, [&](const Buffer& piece) {
      return writer.write(bytes_in(piece));
    }));
  }
  return part.hash.value_or(writer.hash());
}

Result<ShardFacts> write_unfinished(FileSystem& files, const std::string& unfinished,
                                    const std::string& name, std::span<const ShardPart> parts,
                                    UserMemory* memory) {
  SafetensorsHead head;
  uint64_t data_bytes = 0;
  for (const ShardPart& part : parts) {
    const uint64_t end = data_bytes + part.count * element_bytes(part.dtype);
    head.tensors.push_back({part.name, part.dtype, {part.count}, data_bytes, end});
    head.metadata[hash_key(part.name)] = hash_text(0);
    data_bytes = end;
  }
  const uint64_t head_bytes = encode(head).size();
  ShardFacts facts = {name, head_bytes + data_bytes, 0};
  FFDL_ASSIGN_OR_RETURN(const auto file, files.create(unfinished));
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorEntry& entry = head.tensors[i];
    FFDL_ASSIGN_OR_RETURN(const uint64_t hash,
                          write_part(*file, head_bytes + entry.begin, parts[i], memory));
    head.metadata[hash_key(entry.name)] = hash_text(hash);
  }
  const std::string text = encode(head);
  facts.hash = hash_of_text(text);
  FFDL_RETURN_IF_ERROR(file->write(0, std::as_bytes(std::span(text))));
  FFDL_RETURN_IF_ERROR(file->sync());
  return facts;
}

}  // namespace

Result<ShardFacts> write_shard(FileSystem& files, const std::string& folder,
                               const std::string& name, std::span<const ShardPart> parts,
                               UserMemory* memory) {
  const std::string path = path_in(folder, name);
  const std::string unfinished = path + std::string(kUnfinished);
  auto facts = write_unfinished(files, unfinished, name, parts, memory);
  Status named = facts.status();
  if (named.ok()) named = files.rename(unfinished, path);
  if (!named.ok()) {  // frees its bytes for the next one
    static_cast<void>(files.remove_file(unfinished).ok());
    return named;
  }
  FFDL_RETURN_IF_ERROR(files.sync_folder(folder));
  return facts;
}

Result<ShardFacts> look_at_shard(FileSystem& files, const std::string& folder,
                                 const std::string& name) {
  const std::string path = path_in(folder, name);
  FFDL_ASSIGN_OR_RETURN(auto file, files.open(path));
  ShardReader reader(path, std::move(file));
  ShardFacts facts;
  FFDL_RETURN_IF_ERROR(reader.read_head(nullptr, &facts));
  facts.name = name;
  return facts;
}

Result<ShardReader> ShardReader::open(FileSystem& files, const std::string& folder,
                                      const ShardFacts& facts) {
  const std::string named = path_in(folder, facts.name);
  std::string path = named;
  auto file = files.open(path);
  const auto is_missing = [&] { return file.status().code() == StatusCode::kNotFound; };
  // A member that died while it discarded the shard has left it without its name. One that lives
  // may return the name meanwhile.
  if (is_missing()) file = files.open(path += kUnfinished);
  if (is_missing()) file = files.open(path = named);
  FFDL_RETURN_IF_ERROR(Status(file.status()));
  ShardReader reader(path, std::move(file).value());
  FFDL_RETURN_IF_ERROR(reader.read_head(&facts, nullptr));
  return reader;
  FFDL_RETURN_IF_ERROR(reader.read_head(&facts, nullptr));
  return reader;
}

Status ShardReader::read_head(const ShardFacts* facts, ShardFacts* seen) {
  if (facts != nullptr && file_->size() != facts->bytes) {
    return base::make_error(StatusCode::kCorrupt,
                            "{}: byte {}: it ends there, and had {} bytes when it was written",
                            in_file(path_), file_->size(), facts->bytes);
  }
  std::string text(std::min(kHeadLengthBytes, file_->size()), '\0');
  FFDL_RETURN_IF_ERROR(file_->read(0, std::as_writable_bytes(std::span(text))));
  const auto length = parse_head_length(text, file_->size());
  if (!length.ok()) return Status(length.status()).with_context(in_file(path_));
  data_begin_ = kHeadLengthBytes + *length;
  text.resize(data_begin_);
  FFDL_RETURN_IF_ERROR(file_->read(
      kHeadLengthBytes, std::as_writable_bytes(std::span(text)).subspan(kHeadLengthBytes)));
  const uint64_t hash = hash_of_text(text);
  if (facts != nullptr && hash != facts->hash) {
    return base::make_error(StatusCode::kCorrupt,
                            "{}: byte 0: its head of {} bytes has another hash than its manifest "
                            "says",
                            in_file(path_), data_begin_);
  }
  auto head =
      parse_head(std::string_view(text).substr(kHeadLengthBytes), file_->size() - data_begin_);
  if (!head.ok()) return std::move(head).status().with_context(in_file(path_));
  head_ = std::move(head).value();
  if (seen != nullptr) *seen = {"", file_->size(), hash};
  return {};
}

const TensorEntry* ShardReader::find(std::string_view name) const {
  const auto found = std::find_if(head_.tensors.begin(), head_.tensors.end(),
                                  [&](const TensorEntry& one) { return one.name == name; });
  return found == head_.tensors.end() ? nullptr : &*found;
}

Status ShardReader::read(const TensorEntry& tensor, UserMemory& memory, const Buffer& to) const {
  const auto expected = head_.metadata.find(hash_key(tensor.name));
  Hash hash;
  uint64_t at = data_begin_ + tensor.begin;
  const Status read = memory.visit({&to, 1}, Access::kWrite, [&](const Buffer& piece) -> Status {
    const uint64_t bytes = bytes_of(piece);
    FFDL_RETURN_IF_ERROR(file_->read(at, {static_cast<std::byte*>(piece.data), bytes}));
    hash.add(piece.data, bytes);
    at += bytes;
    return {};
  });
  FFDL_RETURN_IF_ERROR(read);
  if (expected != head_.metadata.end() && expected->second == hash_text(hash.digest())) return {};
  return base::make_error(StatusCode::kCorrupt,
                          "{}: byte {}: the {} bytes of '{}' there have another hash than when "
                          "they were written",
                          in_file(path_), data_begin_ + tensor.begin, bytes_of(to), tensor.name);
}

Status ShardReader::read(const TensorEntry& tensor, std::span<std::byte> to) const {
  HostMemory memory;
  return read(tensor, memory, as_bytes(to.data(), to.size()));
}

}  // namespace ffdl::elastic
