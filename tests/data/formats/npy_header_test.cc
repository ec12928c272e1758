#include "data/formats/npy_header.h"

#include <gtest/gtest.h>

#include "data/source_text.h"

namespace ffdl::data {
namespace {

using testing::npy;

Result<NpyHeader> parse(std::string_view dict) { return parse_npy_header(npy(dict, "")); }

TEST(NpyHeader, ReadsWhatNumPyWrites) {
  ASSERT_OK_AND_ASSIGN(const NpyHeader header,
                       parse("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 3, 2), }"));
  EXPECT_EQ(header.dtype, "<f4");
  EXPECT_EQ(header.item_bytes, 4U);
  EXPECT_FALSE(header.fortran_order);
  EXPECT_EQ(header.shape, (std::vector<uint64_t>{10, 3, 2}));
  EXPECT_EQ(header.data_offset, 128U);
  ASSERT_OK_AND_ASSIGN(const NpyHeader other,
                       parse("{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"|b1\"}"));
  EXPECT_EQ(other.shape, std::vector<uint64_t>{7});
  EXPECT_TRUE(other.fortran_order);
  ASSERT_OK_AND_ASSIGN(const NpyHeader scalar,
                       parse("{'descr': '>i8', 'fortran_order': False, 'shape': (), }"));
  EXPECT_TRUE(scalar.shape.empty());
}

TEST(NpyHeader, ReadsALongHeader) {
  const std::string text = "{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}\n";
  const std::string bytes = "\x93NUMPY\x02" + std::string(1, '\0') +
                            testing::bytes_of(static_cast<uint32_t>(text.size())) + text;
  ASSERT_OK_AND_ASSIGN(const NpyHeader header, parse_npy_header(bytes));
  EXPECT_EQ(header.data_offset, 12 + text.size());
  EXPECT_EQ(header.item_bytes, 2U);
}

TEST(NpyHeader, RefusesAllElse) {
  for (const char* dict :
       {"", "{", "{}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -1), }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }",
        "{'descr': 'float', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f1', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"}) {
    SCOPED_TRACE(dict);
    EXPECT_FAILS(parse(dict), StatusCode::kCorrupt, "");
  }
  EXPECT_FAILS(parse("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}"),
               StatusCode::kUnimplemented, "Python objects");
  EXPECT_FAILS(parse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}"),
               StatusCode::kUnimplemented, "structures");
  EXPECT_FAILS(npy_header_bytes("PK\x03\x04........"), StatusCode::kCorrupt, "not those of a .npy");
  EXPECT_FAILS(npy_header_bytes("\x93NUMPY\x04\x01....."), StatusCode::kCorrupt, "version");
}

TEST(NpyHeader, KnowsTheSizesOfElements) {
  EXPECT_EQ(npy_item_bytes("<f2"), 2U);
  EXPECT_EQ(npy_item_bytes("|S7"), 7U);
  EXPECT_EQ(npy_item_bytes("<U3"), 12U);
  EXPECT_EQ(npy_item_bytes("<c16"), 16U);
  for (const char* dtype : {"", "f4", "<f", "<f0", "<f4x", "<x4", "=f4", "<f-4", "<f1", "<f3",
                            "<i16", "|b2", "<c4", "<u0", "<f99999999999999999999"}) {
    EXPECT_FALSE(npy_item_bytes(dtype)) << dtype;
  }
}

}  // namespace
}  // namespace ffdl::data
