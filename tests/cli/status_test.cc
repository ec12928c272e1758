// Runs `ffdl status`, `ffdl scale` and `ffdl migrate` beside an `ffdl run`.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <set>

#include "support/program.h"
#include "support/programs.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using Json = nlohmann::json;

const std::string kProgram = kFfdlProgram;

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~StatusTest() override { ::unsetenv("TMPDIR"); }

  static ProgramOutcome ffdl(const std::string& arguments) {
    return run_program(kProgram + " " + arguments + " 2>&1");
  }
  // Returns the status; a discarded value if there is none.
  static Json status() { return Json::parse(ffdl("status digits --json").out, nullptr, false); }
  // Waits until the world consists of these workers, all of which are members.
  static bool becomes_world_of(const std::set<std::string>& ids) {
    return comes_true([&] {
      const Json now = status();
      if (now.is_discarded() || now["phase"] != "active") return false;
      std::set<std::string> ranked;
      for (const Json& worker : now["workers"]) {
        if (worker.contains("rank") && worker["rank"].is_number() && worker["alive"] == true) {
          ranked.insert(worker["id"]);
        }
      }
      return ranked == ids && now["world_size"] == ids.size() && now["running"] == ids.size();
    });
  }

  const TempFolder temporary_;
};

TEST_F(StatusTest, ShowsATrueWorldThatScaleChanges) {
  StartedProgram job(kProgram + " run --job digits --workers 1:3 -- " + kMemberWorker,
                     temporary_.file("out"));
  ASSERT_TRUE(becomes_world_of({"worker-0", "worker-1", "worker-2"})) << job.output();
  const Json all = status();
  EXPECT_EQ(all["wanted"], 3);
  EXPECT_EQ(all["min_workers"], 1);
  EXPECT_EQ(all["max_workers"], 3);
  EXPECT_EQ(all["lineage"], 1);
  EXPECT_TRUE(all["leader"].is_string());
  for (const Json& worker : all["workers"]) {
    // the worker publishes its pid as its address
    EXPECT_EQ(worker["address"], std::to_string(worker["process"].get<int>()));
    EXPECT_EQ(worker["incarnation"], 1);
    EXPECT_EQ(worker["restarts"], 0);
    EXPECT_EQ(worker["phase"], "running");
  }
  EXPECT_TRUE(comes_true([] { return status()["workers"][0]["step"] > 1; }));

  EXPECT_EQ(ffdl("scale digits 1").exit_code, 0);
  EXPECT_TRUE(becomes_world_of({"worker-0"})) << ffdl("status digits").out << job.output();
  EXPECT_EQ(ffdl("scale digits 2").exit_code, 0);
  EXPECT_TRUE(becomes_world_of({"worker-0", "worker-1"})) << ffdl("status digits").out;
  const auto refused = ffdl("scale digits 4");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("started for 1 to 3"), std::string::npos) << refused.out;

  const auto table = ffdl("status digits");
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.out.find("2 of 2 wanted workers run (1 to 3 allowed)"), std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("worker-1         running"), std::string::npos) << table.out;

  ::kill(status()["workers"][1]["process"].get<int>(), SIGKILL);
  EXPECT_TRUE(comes_true([] {
    const Json now = status();
    return now["workers"].size() > 1 && now["workers"][1].value("restarts", 0) == 1;
  }));
  EXPECT_TRUE(becomes_world_of({"worker-0", "worker-1"})) << ffdl("status digits").out;
}

TEST_F(StatusTest, AJobWhoseStateIsLostFailsIfItIsToldTo) {
  StartedProgram job(kProgram + " run --job digits --max-restarts 1 --on-lost-state fail -- " +
                         kMemberWorker,
                     temporary_.file("out"));
  ASSERT_TRUE(becomes_world_of({"worker-0"})) << job.output();
  ASSERT_TRUE(comes_true([] { return status()["workers"][0]["step"] > 1; })) << job.output();
  ::kill(status()["workers"][0]["process"].get<int>(), SIGKILL);
  ASSERT_TRUE(comes_true([&] { return job.wrote("because on_lost_state is 'fail'"); }))
      << job.output();
  EXPECT_TRUE(job.wrote("no member and no checkpoint has the state")) << job.output();
  EXPECT_EQ(job.wait(), 1) << job.output();
}

// The world has two members at each observation, and changes once.
TEST_F(StatusTest, MigrateMovesAWorkerInOneChangeOfTheWorld) {
  StartedProgram job(kProgram + " run --job digits --workers 1:3 -- " + kMemberWorker,
                     temporary_.file("out"));
  ASSERT_TRUE(becomes_world_of({"worker-0", "worker-1", "worker-2"})) << job.output();
  const auto full = ffdl("migrate digits 1");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_NE(full.out.find("no worker is idle"), std::string::npos) << full.out;
  EXPECT_EQ(ffdl("scale digits 2").exit_code, 0);
  ASSERT_TRUE(becomes_world_of({"worker-0", "worker-1"})) << ffdl("status digits").out;
  const uint64_t before = status()["generation"];

  const auto migrated = ffdl("migrate digits 1");
  EXPECT_EQ(migrated.out, "requested: worker-2 replaces worker-1\n");
  EXPECT_EQ(migrated.exit_code, 0);
  std::set<uint64_t> sizes;
  EXPECT_TRUE(comes_true([&] {
    const Json now = status();
    sizes.insert(now["world_size"].get<uint64_t>());
    return now["running"] == 2 && now["generation"] > before && now["phase"] == "active";
  }));
  EXPECT_EQ(sizes, (std::set<uint64_t>{2}));
  EXPECT_TRUE(becomes_world_of({"worker-0", "worker-2"})) << ffdl("status digits").out;
  EXPECT_EQ(status()["generation"], before + 1);
  EXPECT_EQ(status()["wanted"], 2);
  const auto refused = ffdl("migrate digits 1 0");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("worker 1 is not wanted; name one of 0, 2"), std::string::npos)
      << refused.out;
}

TEST_F(StatusTest, WatchesUntilTheJobIsOver) {
  StartedProgram job(kProgram + " run --job digits -- " + kMemberWorker, temporary_.file("out"));
  ASSERT_TRUE(becomes_world_of({"worker-0"})) << job.output();
  StartedProgram watch(kProgram + " status digits --watch", temporary_.file("watch"));
  ASSERT_TRUE(comes_true([&] {
    const std::string text = watch.output();
    return text.find("job 'digits'") != text.rfind("job 'digits'");  // at least twice
  })) << watch.output();
  EXPECT_FALSE(watch.wrote("\x1b")) << "it is no terminal";
  watch.signal(SIGINT);
  EXPECT_EQ(watch.wait(), -SIGINT);
}

TEST_F(StatusTest, FindsAJobByItsStore) {
  const std::string store = "--store file://" + temporary_.file("store");
  StartedProgram job(kProgram + " run --job digits " + store + " -- " + kMemberWorker,
                     temporary_.file("out"));
  ASSERT_TRUE(becomes_world_of({"worker-0"})) << job.output();
  EXPECT_EQ(ffdl("status digits " + store).exit_code, 0);
  const auto other = ffdl("status letters " + store);
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.out.find("has no such job"), std::string::npos) << other.out;
}

TEST_F(StatusTest, AJobThatNobodyRunsIsNotFound) {
  for (const char* command : {"status digits", "scale digits 2", "migrate digits 1"}) {
    const auto outcome = ffdl(command);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.out.find("find job 'digits'"), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(ffdl("scale digits many").exit_code, 2);
  EXPECT_EQ(ffdl("status").exit_code, 2);
}

}  // namespace
}  // namespace ffdl
