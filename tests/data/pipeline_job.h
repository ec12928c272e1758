#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/numbered_source.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_ledger.h"
#include "support/status_matchers.h"

namespace ffdl::testing {

// Runs a job of some members, each with a ledger and a pipeline, as a session drives them.
class PipelineJob {
 public:
  PipelineJob(const NumberedSource& source, LedgerOptions ledger, DataPipelineOptions pipeline)
      : source_(source), ledger_options_(ledger), pipeline_options_(pipeline) {
    ledger_options_.samples = source.samples();
  }
  // Lets members use memory of their own.
  void use_own_memory() { uses_own_memory_ = true; }
  // Lets the second member take half of the first one's samples in each step, the third a third.
  void go_out_of_step() { is_in_step_ = false; }

  struct Member {
    ffdl::Member self;
    std::unique_ptr<SampleLedger> ledger;
    std::unique_ptr<DataPipeline> pipeline;
    DataBatch batch{};
    std::vector<std::byte> memory{};
  };

  void add() {
    const auto id = std::string(1, static_cast<char>('a' + made_ % 26));
    auto member = std::make_unique<Member>();
    member->self = {id, ++made_};
    member->ledger = std::move(make_session_ledger(ledger_options_)).value();
    if (!members_.empty())
      EXPECT_OK(member->ledger->participant()->restore(members_[0]->ledger->participant()->save()));
    member->pipeline =
        std::move(DataPipeline::create(source_, *member->ledger, pipeline_options_)).value();
    members_.push_back(std::move(member));
  }
  void remove(size_t which) {
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void announce() {
    World world;
    for (const auto& member : members_) world.members.push_back(member->self);
    for (auto& member : members_) {
      world.rank = static_cast<int>(&member - members_.data());
      member->ledger->participant()->world_changed(world);
    }
  }

  // Runs one step. Every member's batch must equal its ledger's ranges, and is counted.
  void step(uint64_t count) {
    std::vector<std::byte> records;
    for (auto& member : members_) {
      const auto place = static_cast<uint64_t>(&member - members_.data()) + 1;
      ASSERT_OK(next(*member, is_in_step_ ? count : std::max<uint64_t>(1, count / place)));
      check(*member);
      std::vector<std::byte> record(member->ledger->participant()->record_bytes());
      member->ledger->participant()->write_record(record);
      records.insert(records.end(), record.begin(), record.end());
    }
    ++step_;
    const uint64_t epoch = members_[0]->ledger->epoch();
    const size_t bytes = members_[0]->ledger->participant()->record_bytes();
    for (auto& member : members_) {
      for (const auto& sample : member->batch.samples) ++used_[{epoch, number_of(sample)}];
      member->ledger->participant()->applied(step_, StepRecords(records, bytes, bytes));
      member->ledger->participant()->stable(step_);
    }
  }

  std::vector<std::unique_ptr<Member>>& members() { return members_; }
  bool is_done() const { return members_[0]->ledger->is_done(); }
  const std::map<std::pair<uint64_t, uint64_t>, int>& used() const { return used_; }

 private:
  Status next(Member& member, uint64_t count) const {
    if (!uses_own_memory_) return member.pipeline->next(member.batch, count);
    member.memory.assign(count * source_.format().bytes, std::byte{0xA5});
    return member.pipeline->next_into(member.memory, member.batch, count);
  }

  void check(const Member& member) const {
    const DataBatch& batch = member.batch;
    ASSERT_OK_AND_ASSIGN(const auto indices, member.ledger->sample_indices(batch.ranges));
    ASSERT_THAT(batch.indices, ::testing::ElementsAreArray(indices));
    ASSERT_EQ(batch.samples.size(), member.ledger->taken());
    for (size_t i = 0; i < indices.size(); ++i) {
      ASSERT_EQ(number_of(batch.samples[i]), indices[i]);
    }
    if (!uses_own_memory_) return;
    const size_t bytes = source_.format().bytes;
    ASSERT_EQ(batch.bytes.data(), member.memory.data());
    ASSERT_EQ(batch.bytes.size(), indices.size() * bytes);
    for (size_t i = 0; i < indices.size(); ++i) {
      ASSERT_EQ(batch.samples[i].data(), member.memory.data() + i * bytes);
      ASSERT_EQ(number_of(batch.samples[i].last(sizeof(uint64_t))), indices[i]);
    }
  }

  bool uses_own_memory_ = false;
  bool is_in_step_ = true;
  const NumberedSource& source_;
  LedgerOptions ledger_options_;
  const DataPipelineOptions pipeline_options_;
  std::vector<std::unique_ptr<Member>> members_{};
  uint64_t made_ = 0;
  uint64_t step_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, int> used_{};  // epoch and sample
};

}  // namespace ffdl::testing
