#include "cluster/plan/csv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/temp_folder.h"

namespace ffdl::cluster {
namespace {

TEST(ParseNumber, TakesOneNumberAndNothingElse) {
  EXPECT_EQ(parse_number(" 1.5e3 "), 1500);
  EXPECT_EQ(parse_number("-2"), -2);
  EXPECT_TRUE(std::isnan(*parse_number("nan")));
  for (const char* text : {"", " ", "1.5x", "1 2", "x", "--1", "1,5"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_integer("12"), 12);
  for (const char* text : {"", "1.0", "99999999999999999999"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(CsvFile, ReadsCellsAndKeepsTheirLines) {
  TempFolder folder;
  const std::string file = folder.write("x.csv", "a, b\r\n1,two\r\n\r\n 3 ,\r\n");
  const CsvFile csv = CsvFile::read(file).value();
  EXPECT_EQ(csv.rows(), 2u);
  EXPECT_EQ(csv.column("b").value(), 1u);
  EXPECT_EQ(csv.text(0, 1), "two");
  EXPECT_EQ(csv.text(1, 1), "");
  EXPECT_EQ(csv.number(1, 0).value(), 3);
  EXPECT_EQ(csv.number(1, 1).status().message(),
            "read '" + file + "': line 4, column 2 (b): '' is not a number; write a finite one");
  EXPECT_EQ(
      csv.integer(0, 0, 2).status().message(),
      "read '" + file + "': line 2, column 1 (a): '1' is not a whole number from 2 on; write one");
}

TEST(CsvFile, AFolderIsNoFile) {
  TempFolder folder;
  EXPECT_EQ(CsvFile::read(folder.path()).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ffdl::cluster
