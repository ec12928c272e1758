#include "wire/json_record.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::wire {
namespace {

TEST(RecordReader, ReadsFieldsOfEachKind) {
  const Json json = parse_json(R"({"n":18446744073709551615,"i":-3,"r":1.5,"t":"x","b":true,)"
                               R"("o":{"n":1},"l":[{"n":2},{"n":3}]})");
  RecordReader fields(json);
  EXPECT_EQ(fields.number("n"), UINT64_MAX);
  EXPECT_EQ(fields.integer("i", -3, 3), -3);
  EXPECT_EQ(fields.real("r"), 1.5);
  EXPECT_EQ(fields.text("t"), "x");
  EXPECT_TRUE(fields.truth("b"));
  fields.object("o", [](RecordReader& part) { EXPECT_EQ(part.number("n"), 1U); });
  uint64_t sum = 0;
  fields.list("l", 2, [&](RecordReader& part) { sum += part.number("n"); });
  EXPECT_EQ(sum, 5U);
  EXPECT_TRUE(fields.has("n"));
  EXPECT_FALSE(fields.has("m"));
  EXPECT_OK(fields.outcome("a record"));
}

TEST(RecordReader, NamesTheFirstWrongField) {
  const Json json =
      parse_json(R"({"n":-1,"i":4,"r":"1","t":1,"b":0,"o":[],"l":[{"n":"x"}],"u":7})");
  const auto why = [&](const auto& read) {
    RecordReader fields(json);
    read(fields);
    fields.number("later");  // is not named
    return fields.why();
  };
  EXPECT_EQ(why([](RecordReader& f) { f.number("n"); }), "n");
  EXPECT_EQ(why([](RecordReader& f) { f.number("u", 6); }), "u");
  EXPECT_EQ(why([](RecordReader& f) { f.integer("i", 0, 3); }), "i");
  EXPECT_EQ(why([](RecordReader& f) { f.real("r"); }), "r");
  EXPECT_EQ(why([](RecordReader& f) { f.text("t"); }), "t");
  EXPECT_EQ(why([](RecordReader& f) { f.truth("b"); }), "b");
  EXPECT_EQ(why([](RecordReader& f) { f.object("o", [](RecordReader&) {}); }), "o");
  EXPECT_EQ(why([](RecordReader& f) { f.list("l", 0, [](RecordReader&) {}); }), "l");
  EXPECT_EQ(why([](RecordReader& f) { f.list("l", 9, [](RecordReader& p) { p.number("n"); }); }),
            "l.n");
  EXPECT_EQ(why([](RecordReader& f) { f.text("none"); }), "none");
}

TEST(RecordReader, NumbersThatDoNotFitAreRefused) {
  for (const char* text : {"18446744073709551615", "9223372036854775808", "-1", "1.5", "1e400",
                           "99999999999999999999999", "\"1\"", "null"}) {
    const Json json = parse_json(std::string(R"({"i":)") + text + "}");
    RecordReader fields(json);
    EXPECT_EQ(fields.integer("i", 0, INT32_MAX), 0) << text;
    EXPECT_TRUE(fields.failed()) << text;
  }
}

TEST(RecordReader, WhatIsNoObjectHasNoFields) {
  for (const char* text : {"", "{", "[]", "7", "null"}) {
    const Json json = parse_json(text);
    RecordReader fields(json);
    EXPECT_FALSE(fields.has("n"));
    EXPECT_EQ(fields.number("n"), 0U);
    EXPECT_FAILS(fields.outcome("a record"), StatusCode::kCorrupt, "a JSON object");
    EXPECT_FAILS(read_records(parse_json("{}"), "a list", [](RecordReader&) {}),
                 StatusCode::kCorrupt, "it is not a list");
  }
}

}  // namespace
}  // namespace ffdl::wire
