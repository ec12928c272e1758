#include "elastic/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

SafetensorsHead two_tensors() {
  SafetensorsHead head;
  head.tensors = {{"w", DType::kFloat32, {2, 3}, 0, 24},
                  {"none", DType::kFloat64, {0}, 24, 24},
                  {"b[0:5]", DType::kBFloat16, {5}, 24, 34}};
  head.metadata = {{"key", "a \"text\""}};
  return head;
}

TEST(Safetensors, AHeadIsWrittenAndReadAgain) {
  const std::string bytes = encode(two_tensors());
  EXPECT_EQ(bytes.size() % 4096, 0U);
  ASSERT_OK_AND_ASSIGN(const uint64_t length, parse_head_length(bytes, bytes.size() + 34));
  EXPECT_EQ(length, bytes.size() - 8);
  ASSERT_OK_AND_ASSIGN(const SafetensorsHead again, parse_head(bytes.substr(8), 34));
  EXPECT_EQ(again, two_tensors());
}

TEST(Safetensors, EachDTypeHasItsName) {
  for (uint32_t i = 0; element_bytes(static_cast<DType>(i)) != 0; ++i) {
    const auto dtype = static_cast<DType>(i);
    SafetensorsHead head;
    head.tensors = {{"t", dtype, {3}, 0, 3 * element_bytes(dtype)}};
    ASSERT_OK_AND_ASSIGN(const auto again,
                         parse_head(encode(head).substr(8), 3 * element_bytes(dtype)));
    EXPECT_EQ(again, head);
  }
}

TEST(Safetensors, ALengthThatCannotBeIsRefused) {
  const auto length_of = [](uint64_t length) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes;
  };
  EXPECT_OK(parse_head_length(length_of(92), 100));
  EXPECT_FAILS(parse_head_length("1234567", 7), StatusCode::kCorrupt, "byte 0: it is too short");
  EXPECT_FAILS(parse_head_length(length_of(93), 100), StatusCode::kCorrupt,
               "byte 0: a head of 93 bytes in a file of 100");
  EXPECT_FAILS(parse_head_length(length_of(0), 100), StatusCode::kCorrupt, "a head of 0 bytes");
  EXPECT_FAILS(parse_head_length(length_of(~uint64_t{0}), ~uint64_t{0}), StatusCode::kCorrupt,
               "a head of");
}

TEST(Safetensors, WhatIsNoHeadIsRefused) {
  const struct {
    const char* text;
    uint64_t data;
    const char* why;
  } cases[] = {
      {"", 0, "byte 8: there is no object"},
      {" {}", 0, "there is no object"},
      {"{", 0, "not a JSON object"},
      {"{}", 1, "byte 10: there are 1 bytes of tensors, but the head describes 0"},
      {R"({"a":3})", 0, "'a' is not an object"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "'a' has no dtype"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "'a' has no shape"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "'a' has no shape"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "no data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "ends before it begins"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "another number of bytes than its shape"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "is too large"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "does not begin where"},
      {R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}})",
       3, "'b' does not begin where"},
      {R"({"__metadata__":[]})", 0, "metadata is not an object"},
      {R"({"__metadata__":{"a":1}})", 0, "metadata has a value that is not text"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.text);
    EXPECT_FAILS(parse_head(one.text, one.data), StatusCode::kCorrupt, one.why);
  }
  EXPECT_FAILS(parse_head(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1),
               StatusCode::kUnimplemented, "of dtype 'F8_E4M3'");
}

}  // namespace
}  // namespace ffdl::elastic
