#include "membership/membership_records.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "support/status_matchers.h"

namespace ffdl::membership {
namespace {

WorldRecord some_record() {
  WorldRecord record;
  record.generation = 12;
  record.phase = Phase::kForming;
  record.members = {{"w0", 3, "host:1"}, {"w1", 1, ""}};
  record.state_holders = {{"w0", 3, "host:1"}};
  record.active_generation = 11;
  record.active_lineage = 1;
  record.lineage = 2;
  record.term = 4;
  record.leader = {"w1", 1, ""};
  record.checkpoint = CheckpointPointer{2, 10, 500, "checkpoints/500", 0xffffffffffffffffU};
  return record;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, text.npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(Records, AWorldComesBackAsItWasWritten) {
  const WorldRecord record = some_record();
  ASSERT_OK_AND_ASSIGN(const WorldRecord read, parse_world(encode(record)));
  EXPECT_EQ(read, record);
  EXPECT_EQ(read.members[0].address, "host:1");
}

TEST(Records, AWorldThatIsDoneComesBackToo) {
  WorldRecord record = some_record();
  record.completion = StateLabel{2, 11, 600, 7};
  ASSERT_OK_AND_ASSIGN(const WorldRecord read, parse_world(encode(record)));
  EXPECT_EQ(read, record);
  record.completion->lineage = 1;  // the completed lineage is the last one
  EXPECT_FAILS(parse_world(encode(record)), StatusCode::kCorrupt, "'completion'");
}

TEST(Records, PeopleCanReadThem) {
  EXPECT_EQ(encode(CandidateRecord{3, "host:1", false, 0}),
            R"({"incarnation":3,"address":"host:1","leaving":false,"failed_generation":0})");
  EXPECT_NE(encode(some_record()).find(R"("generation":12,"phase":"forming")"), std::string::npos);
}

TEST(Records, WhatNobodyWouldHaveWrittenIsCorrupt) {
  const std::string text = encode(some_record());
  const std::pair<const char*, const char*> changes[] = {
      {"\"format\":3", "\"format\":4"},
      {"\"generation\":12", "\"generation\":0"},
      {"\"generation\":12", "\"generation\":-12"},
      {"\"generation\":12", "\"generation\":\"12\""},
      {"\"phase\":\"forming\"", "\"phase\":\"over\""},
      {"\"phase\":\"forming\"", "\"phase\":\"active\""},
      {"\"active_generation\":11", "\"active_generation\":12"},
      {"\"lineage\":2", "\"lineage\":0"},
      {"\"active_lineage\":1", "\"active_lineage\":3"},
      {"\"recovery\":\"forward\"", "\"recovery\":\"backward\""},
      {"\"recovery\":\"forward\"", "\"recovery\":1"},
      {"\"protocol\":3", "\"protocol\":-1"},
      {"\"term\":4", "\"term\":0"},
      {"\"id\":\"w1\"", "\"id\":\"w0\""},
      {"\"id\":\"w1\"", "\"id\":\"w/1\""},
      {"\"incarnation\":3", "\"incarnation\":0"},
      {"\"members\":", "\"member\":"},
      {"\"restart_base\":null", "\"restart\":null"},
      {"\"checkpoint\":{", "\"checkpoint\":[{"},
      {"{\"format\"", "[\"format\""},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_FAILS(parse_world(replaced(text, from, to)), StatusCode::kCorrupt,
                 "is missing or wrong");
  }
  for (const size_t size : {size_t{0}, size_t{1}, text.size() / 2, text.size() - 1}) {
    EXPECT_FAILS(parse_world(text.substr(0, size)), StatusCode::kCorrupt,
                 "the record of the world");
  }
}

TEST(Records, AnActiveWorldIsCarriedByItsMembers) {
  WorldRecord record = some_record();
  record.phase = Phase::kActive;
  record.active_generation = record.generation;
  EXPECT_FAILS(parse_world(encode(record)), StatusCode::kCorrupt, "'state_holders'");
  record.state_holders = record.members;
  EXPECT_FAILS(parse_world(encode(record)), StatusCode::kCorrupt, "'active_lineage'");
  record.active_lineage = record.lineage;
  EXPECT_OK(parse_world(encode(record)));
}

TEST(Records, OnesThatLiveMayCarryALineageThatIsGivenUp) {
  WorldRecord record = some_record();
  record.recovery = Recovery::kConsistent;
  ASSERT_OK_AND_ASSIGN(const WorldRecord read, parse_world(encode(record)));
  EXPECT_EQ(read, record);
  EXPECT_TRUE(read.gives_up());
  record.state_holders.clear();
  EXPECT_FALSE(record.gives_up()) << "nobody holds it";
  record = some_record();
  record.active_lineage = record.lineage;
  EXPECT_FALSE(record.gives_up());
}

TEST(Records, TheSmallOnes) {
  ASSERT_OK_AND_ASSIGN(const CandidateRecord candidate,
                       parse_candidate(encode(CandidateRecord{9, "x", true, 4})));
  EXPECT_EQ(candidate.incarnation, 9U);
  EXPECT_TRUE(candidate.leaving);
  EXPECT_EQ(candidate.failed_generation, 4U);
  EXPECT_EQ(candidate.takes_over_from, std::nullopt);
  const Progress written = {1, 2, 3, {4, 5}, StateLabel{6, 7, 8, 9}, "a process"};
  ASSERT_OK_AND_ASSIGN(const Progress progress, parse_progress(encode(written)));
  EXPECT_EQ(progress, written);
  ASSERT_OK_AND_ASSIGN(const Member leader, parse_leader(encode_leader({"w", 5, "y"})));
  EXPECT_EQ(leader, (Member{"w", 5, ""}));
  EXPECT_EQ(*parse_number("18446744073709551615"), UINT64_MAX);
  EXPECT_FAILS(parse_candidate("{}"), StatusCode::kCorrupt, "a candidate");
  EXPECT_FAILS(parse_progress("[]"), StatusCode::kCorrupt, "a member's progress");
  EXPECT_FAILS(parse_leader("3"), StatusCode::kCorrupt, "the leader");
  for (const char* text : {"", "1x", "-1", "18446744073709551616", " 1"}) {
    EXPECT_FAILS(parse_number(text), StatusCode::kCorrupt, "not a decimal number");
  }
}

TEST(Records, ACandidateMaySayFromWhomItTakesOver) {
  const std::string text = encode(CandidateRecord{9, "x", false, 0, Member{"w1", 3}});
  ASSERT_OK_AND_ASSIGN(const CandidateRecord candidate, parse_candidate(text));
  EXPECT_EQ(candidate.takes_over_from, (Member{"w1", 3}));
  for (const auto& [from, to] :
       {std::pair("\"incarnation\":3", "\"incarnation\":0"), std::pair("\"w1\"", "\"w/1\""),
        std::pair("{\"id\"", "{\"name\""), std::pair("\"id\":\"w1\"", "\"id\":1")}) {
    EXPECT_FAILS(parse_candidate(replaced(text, from, to)), StatusCode::kCorrupt, "a candidate");
  }
}

TEST(Records, ACandidateMayNameThoseThatItCouldNotConnectTo) {
  EXPECT_EQ(encode(CandidateRecord{9, "x", false, 4}).find("unreached"), std::string::npos);
  const std::vector<Unreached> unreached = {{"w1", 3, 2}, {"w2", 1, 7}};
  const std::string text =
      encode(CandidateRecord{.incarnation = 9, .failed_generation = 4, .unreached = unreached});
  ASSERT_OK_AND_ASSIGN(const CandidateRecord candidate, parse_candidate(text));
  EXPECT_EQ(candidate.unreached, unreached);
  for (const auto& [from, to] :
       {std::pair("\"w1\"", "\"w/1\""), std::pair("\"worlds\":2", "\"worlds\":-2"),
        std::pair("\"unreached\":[", "\"unreached\":[1,")}) {
    EXPECT_FAILS(parse_candidate(replaced(text, from, to)), StatusCode::kCorrupt, "a candidate");
  }
}

TEST(Records, WorldsAreCountedForEachLifeThatWasNotReached) {
  std::vector<Unreached> unreached;
  count_unreached({{"a", 1}, {"b", 1}}, unreached);
  count_unreached({{"a", 1}, {"b", 2}}, unreached);
  EXPECT_EQ(unreached, (std::vector<Unreached>{{"a", 1, 2}, {"b", 2, 1}}));
  for (int i = 0; i < 100; ++i) count_unreached({{std::to_string(i), 1}}, unreached);
  EXPECT_EQ(unreached.size(), base::kUnreachedMax);
  EXPECT_EQ(unreached.back().id, "99");
}

TEST(Records, BytesThatAreNoTextAreReplaced) {
  const std::string text = encode(CandidateRecord{1, "\xff\xfe", false, 0});
  EXPECT_OK(parse_candidate(text));
}

TEST(Records, NamesArePartsOfKeys) {
  for (const char* name : {"w0", "a-b_c.d:1", "~"}) EXPECT_TRUE(is_name(name)) << name;
  for (const char* name : {"", "a/b", "a b", "\x7f", "\xc3\xa4"})
    EXPECT_FALSE(is_name(name)) << name;
  EXPECT_TRUE(is_name(std::string(128, 'x')));
  EXPECT_FALSE(is_name(std::string(129, 'x')));
}

// A job whose lineage 2 began in generation 5 with the state (1, 3, 20), although a member had been
// away with a state of generation 4.
struct BeginningCase {
  const char* name;
  StateLabel state;
  std::optional<StateLabel> label;  // where lineage 3 begins
};

TEST(WorldRecord, AStateWithTheBaseOfTheLastLineageCountsAsOneOfIt) {
  WorldRecord record;
  record.lineage = record.active_lineage = 2;
  record.lineage_generation = 5;
  record.lineage_base = {1, 3, 20};
  const BeginningCase cases[] = {
      {"made in the last active lineage", {2, 6, 30}, StateLabel{2, 6, 30}},
      {"its base", {1, 3, 20}, StateLabel{2, 3, 20}},
      {"a later step of the base's world", {1, 3, 21}, StateLabel{2, 3, 21}},
      {"an earlier step of it", {1, 3, 19}, StateLabel{1, 3, 19}},
      {"of a world that the base's members were not in", {1, 4, 33}, StateLabel{1, 4, 33}},
      {"of an earlier world", {1, 2, 20}, StateLabel{1, 2, 20}},
      {"the initial one", {}, std::nullopt},
  };
  for (const BeginningCase& test : cases) {
    EXPECT_EQ(record.label_at_beginning(test.state), test.label) << test.name;
  }
  EXPECT_LT(record.label_at_beginning({1, 4, 33}), record.label_at_beginning({1, 3, 20}));
  record.continues = 1;
  EXPECT_EQ(record.continued_lineage({2, 6, 30}), 2U);
  EXPECT_EQ(record.continued_lineage({2, 3, 20}), 1U) << "its last step is of lineage 1";
  EXPECT_EQ(record.continued_lineage({1, 3, 19}), 1U);
  record.lineage_base = {};  // lineage 2 began with the initial state
  EXPECT_EQ(record.label_at_beginning({1, 3, 20}), (StateLabel{1, 3, 20}));
  record.recovery = Recovery::kConsistent;
  EXPECT_EQ(record.label_at_beginning({2, 6, 30}), std::nullopt);
  record.recovery = Recovery::kForward;
  record.oldest_lineage = 2;
  EXPECT_EQ(record.label_at_beginning({1, 3, 19}), std::nullopt);
}

}  // namespace
}  // namespace ffdl::membership
