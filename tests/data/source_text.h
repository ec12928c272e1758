#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "data/counted_memory.h"
#include "data/formats/contiguous_samples.h"
#include "data/formats/crc32c.h"
#include "ffdl/data/data_source.h"
#include "support/status_matchers.h"

// Writes small data files, and reads their samples as text.
namespace ffdl::testing {

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::vector<std::string> texts_of(const SampleBatch& batch) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < batch.size(); ++i) {
    texts.push_back(batch.is_skipped(i) ? "(skipped)" : text_of(batch[i]));
  }
  return texts;
}

inline std::vector<uint64_t> all_of(const DataSource& source) {
  std::vector<uint64_t> indices(source.samples());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return indices;
}

inline std::vector<std::string> read_texts(const DataSource& source,
                                           const std::vector<uint64_t>& indices) {
  SampleBatch batch;
  EXPECT_OK(source.read(indices, batch));
  return texts_of(batch);
}

inline std::vector<std::string> read_texts(const DataSource& source) {
  return read_texts(source, all_of(source));
}

// The result of read_into() with room for the samples and `spare` bytes. `allocations` counts
// requests of the batch for its own memory; 0: all samples were read in place.
struct TextsInto {
  std::vector<std::string> texts{};
  int allocations = 0;
};
inline TextsInto read_texts_into(const DataSource& source, const std::vector<uint64_t>& indices,
                                 size_t spare = 0) {
  constexpr auto kUntouched = std::byte{0xA5};
  SampleBatch plain;
  EXPECT_OK(source.read(indices, plain));
  const size_t bytes = data::bytes_together(plain.samples());
  std::vector<std::byte> memory(bytes + spare + 2, kUntouched);
  CountedMemory own;
  TextsInto found;
  {
    SampleBatch batch(&own);
    const auto filled =
        source.read_into(indices, std::span(memory).subspan(1, bytes + spare), batch);
    EXPECT_OK(filled);
    if (!filled.ok()) return found;
    EXPECT_EQ(filled->data(), memory.data() + 1);
    EXPECT_EQ(filled->size(), bytes);
    const std::byte* next = filled->data();
    for (const auto& sample : batch.samples()) {
      EXPECT_TRUE(sample.empty() || sample.data() == next);
      next += sample.size();
    }
    found = {texts_of(batch), own.calls};
  }
  EXPECT_EQ(own.given, 0U);
  EXPECT_EQ(memory.front(), kUntouched);
  EXPECT_EQ(memory.back(), kUntouched);
  return found;
}

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline std::string masked_crc(std::string_view text) {
  return bytes_of(data::mask_crc(data::crc32c(std::as_bytes(std::span(text)))));
}

inline std::string tf_record(std::string_view data) {
  const std::string length = bytes_of(uint64_t{data.size()});
  return length + masked_crc(length) + std::string(data) + masked_crc(data);
}

// Returns a member of a tar archive: header, data, padding.
inline std::string tar_member(std::string_view path, std::string_view data, char type = '0') {
  std::string header(512, '\0');
  path.copy(header.data(), 100);
  const auto octal = [&](size_t at, size_t size, uint64_t number) {
    for (size_t i = size - 1; i-- > 0; number /= 8) {
      header[at + i] = static_cast<char>('0' + number % 8);
    }
  };
  octal(100, 8, 0644);
  octal(124, 12, data.size());
  header[156] = type;
  std::string_view("ustar\00000", 8).copy(header.data() + 257, 8);
  std::string_view("        ").copy(header.data() + 148, 8);
  uint64_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  octal(148, 7, sum);
  header[154] = '\0';
  return header + std::string(data) + std::string((512 - data.size() % 512) % 512, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string npy(std::string_view dict, std::string_view data) {
  std::string text(dict);
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  return "\x93NUMPY\x01" + std::string(1, '\0') + bytes_of(static_cast<uint16_t>(text.size())) +
         text + std::string(data);
}

}  // namespace ffdl::testing
