// Runs the program itself, with job folders of the test's own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "comm/network/links.h"
#include "ffdl/ps/learner.h"
#include "ffdl/runtime.h"
#include "ffdl/store.h"
#include "support/etcd_server.h"
#include "support/free_port.h"
#include "support/private_files.h"
#include "support/process_state.h"
#include "support/program.h"
#include "support/programs.h"
#include "support/segment_name.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

const std::string kRun = std::string(kFfdlProgram) + " run ";
const std::string kMember = kMemberWorker;
using testing::SegmentName;

class RunTest : public ::testing::Test {
 protected:
  RunTest() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~RunTest() override { ::unsetenv("TMPDIR"); }

  static ProgramOutcome run(const std::string& arguments) {
    return run_program(kRun + arguments + " 2>&1");
  }
  std::string file(const std::string& name) const { return temporary_.file(name); }
  std::string job_folder(const std::string& job) const {
    return file("ffdl-" + std::to_string(::getuid()) + "/" + job);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const TempFolder temporary_;
};

TEST_F(RunTest, LinesHaveTheirWorkersPrefixAndNoneIsMissing) {
  const auto outcome =
      run("--workers 3 -- sh -c 'for i in $(seq 500); do echo line $i; done; printf end >&2'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  std::map<std::string, std::string> of;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find("] ");
    if (line.starts_with("[") && end != line.npos)
      of[line.substr(0, end)] += line.substr(end + 2) + "\n";
  }
  std::string expected;
  for (int i = 1; i <= 500; ++i) expected += "line " + std::to_string(i) + "\n";
  ASSERT_EQ(of.size(), 3U) << outcome.out;
  for (auto& [worker, text] : of) {
    const size_t at = text.find("end\n");  // from the other stream, at any place
    ASSERT_NE(at, std::string::npos) << worker;
    text.erase(at, 4);
    EXPECT_EQ(text, expected) << worker;
  }
}

TEST_F(RunTest, APythonScriptFindsTorchrunsEnvironment) {
  const std::string script = temporary_.write("show.py", R"(import os, sys
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK ROLE_RANK ROLE_WORLD_SIZE " \
        "MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID"
values = [os.environ[name] for name in names.split()]
print(*values, int(os.environ["MASTER_PORT"]) > 0, sys.argv[1:])
)");
  const auto outcome =
      run("--standalone --nnodes=1 --nproc_per_node=2 --rdzv-id=r7 --max-restarts 5 " + script +
          " --workers 9 [1,2] -- -x");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  const std::string rest = " 2 127.0.0.1 0 5 r7 True ['--workers', '9', '[1,2]', '--', '-x']\n";
  EXPECT_NE(outcome.out.find("[worker-0] 0 2 0 2 0 0" + rest), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("[worker-1] 1 2 1 2 0 1" + rest), std::string::npos) << outcome.out;
}

TEST_F(RunTest, WorkersThatShareAHostComputeWithOneThreadEach) {
  const auto threads = [](const std::string& environment, const char* workers) {
    return run_program("env " + environment + " " + kRun + "--workers " + workers +
                       " -- sh -c 'echo ${OMP_NUM_THREADS-all} threads' 2>&1")
        .out;
  };
  const std::string unset = "-u OMP_NUM_THREADS";
  EXPECT_NE(threads(unset, "1:2").find("[worker-1] 1 threads\n"), std::string::npos);
  EXPECT_NE(threads(unset, "1").find("[worker-0] all threads\n"), std::string::npos);
  EXPECT_NE(threads("OMP_NUM_THREADS=3", "2").find("[worker-1] 3 threads\n"), std::string::npos);
}

TEST_F(RunTest, LogsIntoAFolder) {
  const auto outcome = run("--workers 2 --log-dir " + file("logs/new") +
                           " -- sh -c 'echo $RANK; echo to stderr >&2'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(outcome.out.find("worker-0]"), std::string::npos) << outcome.out;
  EXPECT_EQ(read(file("logs/new/worker-0.log")), "0\nto stderr\n");
  EXPECT_EQ(read(file("logs/new/worker-1.log")), "1\nto stderr\n");
}

TEST_F(RunTest, PrivateFilesAreForItsUserAlone) {
  const std::string program =
      " -- sh -c 'echo; mkdir -p " + file("made") + "; echo > " + file("made/checkpoint") + "'";
  const auto mode_of = [&](const std::string& name) {
    struct stat found = {};
    EXPECT_EQ(stat(file(name).c_str(), &found), 0) << name;
    return found.st_mode & 0777;
  };
  ASSERT_EQ(run("--private-files --log-dir " + file("logs") + program).exit_code, 0);
  EXPECT_EQ(mode_of("logs"), 0700U);
  EXPECT_EQ(mode_of("logs/worker-0.log"), 0600U);
  EXPECT_EQ(mode_of("made"), 0700U);
  EXPECT_EQ(mode_of("made/checkpoint"), 0600U);
}

TEST_F(RunTest, WorkersAreToldWhereToLogTheirSamples) {
  const auto outcome =
      run("--ledger-log " + file("samples/new") + " sh -c 'cd $FFDL_LEDGER_LOG && pwd'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find(file("samples/new") + "\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("no worker has logged samples there"), std::string::npos)
      << outcome.out;
  const auto logged =
      run("--ledger-log " + file("samples") + " sh -c 'echo > $FFDL_LEDGER_LOG/worker-0.commits'");
  EXPECT_EQ(logged.out.find("no worker has logged"), std::string::npos) << logged.out;
  EXPECT_EQ(run("--ledger-log /dev/null/a true").exit_code, 1);
}

TEST_F(RunTest, ExitCodesMeanSomething) {
  EXPECT_EQ(run("true").exit_code, 0);
  const auto failed = run("--max-restarts 1 -- sh -c 'exit 7'");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.out.find("restart 1 of 1"), std::string::npos) << failed.out;
  EXPECT_NE(failed.out.find("1 of 1 workers failed"), std::string::npos) << failed.out;
  EXPECT_EQ(run("no-such-program").exit_code, 1);
  const auto absent = run("--workers 2 no-such.py");
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_TRUE(absent.out.starts_with("ffdl: run 'no-such.py': there is no such file in '"))
      << absent.out;
  EXPECT_EQ(run("--workers 3:2 true").exit_code, 2);
  const auto unknown = run("--rdzv-conf a=1 true");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.out.find("no such option or argument: --rdzv-conf\n"), std::string::npos)
      << unknown.out;
  EXPECT_EQ(run("").exit_code, 2);
  EXPECT_EQ(run("--job a/b true").exit_code, 2);
  const auto help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("Usage: ffdl run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"),
            std::string::npos)
      << help.out;
}

TEST_F(RunTest, AProgramThatFailsBeforeAnyHasJoinedIsNotStartedAgain) {
  const auto outcome = run("--workers 1:2 -- sh -c 'echo life $RANK; exit 7'");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("2 of 2 workers failed"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("before any worker had joined"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("restart 1"), std::string::npos) << outcome.out;
  for (const std::string life : {"life 0", "life 1"}) {
    EXPECT_EQ(outcome.out.find(life), outcome.out.rfind(life)) << outcome.out;
  }
}

TEST_F(RunTest, LeavesNothingWhenTheJobIsDone) {
  ASSERT_EQ(run("--job done true").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(job_folder("done")));
  ASSERT_EQ(run("--max-restarts 0 --job kept false").exit_code, 1);
  EXPECT_TRUE(std::filesystem::exists(job_folder("kept")));  // the job may be run again
  ASSERT_EQ(run("--job kept true").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(job_folder("kept")));
}

TEST_F(RunTest, MembersFormAWorldAndFinish) {
  const auto outcome = run("--workers 3:3 -- " + kMember + " 20");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(outcome.out.find("restart"), std::string::npos) << outcome.out;
}

// The job follows its queue: it grows to three workers, then shrinks to one and grows to two while
// it trains.
TEST_F(RunTest, AJobFollowsItsPolicy) {
  temporary_.write("queue.yaml",
                   "{policy: queue, per_worker: 10, cooldown_s: 0, confirmations: 1}");
  const auto queue = [&](const std::string& length) {  // replaced atomically
    temporary_.write("queue.part", length);
    std::filesystem::rename(file("queue.part"), file("queue"));
  };
  StartedProgram job(kRun + "--job follows --workers 1:3 --policy " + file("queue.yaml") +
                         " --policy-log " + file("sizes") + " -- " + kSteeredWorker + " " +
                         temporary_.path(),
                     file("out"));
  const auto has_had = [&](int workers) {
    const std::string seen = "\"observation\":{\"workers\":" + std::to_string(workers) + ",";
    return comes_true([&] { return read(file("sizes")).find(seen) != std::string::npos; });
  };
  queue("25");
  ASSERT_TRUE(has_had(3)) << job.output();
  queue("5");
  ASSERT_TRUE(has_had(1)) << job.output();
  queue("15");
  ASSERT_TRUE(has_had(2)) << job.output();
  temporary_.write("end", "now");
  EXPECT_EQ(job.wait(), 0) << job.output();
}

TEST_F(RunTest, SigtermIsAGracefulLeave) {
  StartedProgram job(kRun + "--job leaves --workers 2 -- " + kMember, file("out"));
  ASSERT_TRUE(comes_true([&] {
    return job.wrote("[worker-0] joined") && job.wrote("[worker-1] joined");
  })) << job.output();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_FALSE(job.wrote("Cancelled")) << job.output();
  EXPECT_FALSE(job.wrote("was killed")) << job.output();
}

TEST_F(RunTest, ASecondSignalKills) {
  StartedProgram job(
      kRun + "--grace 1000 -- sh -c 'trap \"\" TERM; echo up $$; while :; do sleep 0.01; done'",
      file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("up "); })) << job.output();
  job.signal(SIGINT);
  ASSERT_TRUE(comes_true([&] { return job.wrote("are asked to end"); })) << job.output();
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.output();
}

TEST_F(RunTest, WhoDoesNotEndWithinTheGraceIsKilled) {
  StartedProgram job(
      kRun + "--grace 0.1 -- sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.01; done'",
      file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("up"); })) << job.output();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.output();
}

// The job's store is kept, and its name is free again when the lease in it has ended.
TEST_F(RunTest, KilledItTakesItsWorkersAlong) {
  const std::string command = kRun + "--job killed --workers 2 -- sh -c 'echo $$ >" + file("pid-") +
                              "$RANK; exec sleep 1000'";
  StartedProgram job(command, file("out"));
  const auto pid = [&](const char* rank) { return read(file(std::string("pid-") + rank)); };
  ASSERT_TRUE(comes_true([&] { return pid("0").ends_with("\n") && pid("1").ends_with("\n"); }))
      << job.output();
  const int first = std::stoi(pid("0")), second = std::stoi(pid("1"));
  EXPECT_TRUE(testing::is_running(first) && testing::is_running(second));
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  EXPECT_TRUE(comes_true(
      [&] { return !testing::is_running(first) && !testing::is_running(second); }));
  const auto again = run("--job killed true");
  EXPECT_EQ(again.exit_code, 0) << again.out;
}

// An object of a worker that a shell has started, and how its last message names it.
struct Role {
  const char* name;
  std::string command;
  const char* says;
  Synchrony synchrony = Synchrony::kAsync;  // of the server that outlives the job
  UpdateRuleKind rule = UpdateRuleKind::kSgd;
};

const std::string kWorkerRole = std::string(kRoleWorker) + " ";
const Role kRoles[] = {
    {"AMember", kMember, "member 'worker-"},
    {"ALearner", kWorkerRole + "learner NAME", "learner "},
    {"ALearnerThatWaits", kWorkerRole + "learner NAME", "learner ", Synchrony::kBulk},
    {"AnAveragingLearner", kWorkerRole + "averaging NAME", "averaging learner ", Synchrony::kAsync,
     UpdateRuleKind::kAverage},
    {"ALearnerWithoutAServer", kWorkerRole + "attach NAME-none", "open parameter server '"},
    {"AServer", kWorkerRole + "server NAME", "parameter server '"},
    {"ALedger", kWorkerRole + "ledger NAME", "worker 'worker-"},
    {"ACommunicator", kWorkerRole + "sum shm", "rank "},
    {"ACommunicatorOverTcp", kWorkerRole + "sum tcp", "rank "},
    {"AReceiver", kWorkerRole + "receive shm", "rank "},
    {"AReceiverOverTcp", kWorkerRole + "receive tcp", "rank "},
    {"AReceiverOverGloo", kWorkerRole + "receive gloo", "rank "},
    {"AConnection", kWorkerRole + "connect shm", "rank "},
    {"ASubscriber", kWorkerRole + "subscribe NAME", "subscriber to generation "},
    {"ARing", kWorkerRole + "put NAME", "ring of batches: "},
};

class RunRoleTest : public RunTest, public ::testing::WithParamInterface<Role> {
 protected:
  static std::string command_for(const SegmentName& server) {
    std::string command = GetParam().command;
    const size_t at = command.find("NAME");
    return at == command.npos ? command : command.replace(at, 4, server.text());
  }
  // Returns the server of the learners, which outlives the job.
  static std::unique_ptr<ParameterServer> serve(const std::string& name) {
    ParameterServerOptions options;
    options.name = name;
    options.parameters = 100;
    options.rule.kind = GetParam().rule;
    options.synchrony = GetParam().synchrony;
    auto server = ParameterServer::create(options);
    EXPECT_OK(server);
    EXPECT_OK((*server)->start());
    return std::move(*server);
  }
};

// The kernel kills the shells with the program, but not the processes that the shells started.
TEST_P(RunRoleTest, KilledItsWorkersInShellsEndToo) {
  if (const Status gloo = comm::have_gloo();
      !gloo.ok() && GetParam().command.ends_with("gloo")) {
    GTEST_SKIP() << gloo.to_string();
  }
  const SegmentName name;
  const auto server = serve(name);
  // With Synchrony::kBulk the others wait for this learner.
  ASSERT_OK_AND_ASSIGN(const auto idle, Learner::attach(*server, deadline_in({}), {}));
  StartedProgram job(kRun + "--job wrapped --workers 2 -- sh -c '" + command_for(name) + " 2>" +
                         file("said-") + "$RANK >" + file("up-") + "$RANK & echo $! >" +
                         file("pid-") + "$RANK; wait; exit 1'",
                     file("out"));
  const auto is_up = [&](const std::string& rank) {
    return read(file("up-" + rank)).ends_with("\n") && read(file("pid-" + rank)).ends_with("\n");
  };
  ASSERT_TRUE(comes_true([&] { return is_up("0") && is_up("1"); })) << job.output();
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  for (const char* rank : {"0", "1"}) {
    const int process = std::stoi(read(file(std::string("pid-") + rank)));
    EXPECT_TRUE(comes_true([&] { return !testing::is_running(process); })) << process;
    const std::string said = read(file(std::string("said-") + rank));
    EXPECT_NE(said.find("Cancelled: "), std::string::npos) << said;
    EXPECT_NE(said.find(GetParam().says), std::string::npos) << said;
    EXPECT_NE(said.find("its launcher, 'ffdl run' with process id "), std::string::npos) << said;
  }
  EXPECT_EQ(run("--job wrapped true").exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Roles, RunRoleTest, ::testing::ValuesIn(kRoles),
                         [](const auto& role) { return role.param.name; });

TEST_F(RunTest, TheProcessThatHasANameIsNamed) {
  StartedProgram job(kRun + "--job held -- sh -c 'echo up; exec sleep 1000'", file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("] up"); })) << job.output();
  const auto refused = run("--job held true");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("another 'ffdl run' on this host runs it, as process " +
                             std::to_string(job.process()) + ";"),
            std::string::npos)
      << refused.out;
}

TEST_F(RunTest, FoldersOfKilledJobsWithoutANameGo) {
  StartedProgram job(kRun + "-- sh -c 'echo up; exec sleep 1000'", file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("] up"); })) << job.output();
  const std::string number = std::to_string(job.process());
  const std::string folder = job_folder("job-" + number);
  ASSERT_EQ(run("true").exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder));  // the job is running
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  const auto doctor = run_program(std::string(kFfdlProgram) + " doctor --dry-run --json");
  const auto jobs = nlohmann::json::parse(doctor.out)["jobs"];
  ASSERT_EQ(jobs.size(), 1U) << doctor.out;
  EXPECT_EQ(jobs[0]["job"], "job-" + number);
  EXPECT_EQ(jobs[0]["process"], std::stoi(number));
  EXPECT_EQ(jobs[0]["verdict"], "stale");
  EXPECT_TRUE(std::filesystem::exists(folder));
  ASSERT_EQ(run("true").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(RunTest, TheStoreOfAJobHasASecretThatNoProcessShows) {
  StartedProgram job(kRun + "--job secret -- sh -c 'echo up $$; exec sleep 1000'", file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("up "); })) << job.output();
  const std::string out = job.output();
  const std::string worker = std::to_string(std::stoi(out.substr(out.find("up ") + 3)));
  const std::string secret = read(job_folder("secret/store/secret"));
  ASSERT_EQ(secret.size(), 64U);
  for (const std::string& process : {worker, std::to_string(job.process())}) {
    for (const char* part : {"/environ", "/cmdline"}) {
      EXPECT_EQ(read("/proc/" + process + part).find(secret), std::string::npos) << part;
    }
  }
  EXPECT_EQ(out.find(secret), std::string::npos);
  const std::string ffdl = kFfdlProgram;
  EXPECT_EQ(run_program(ffdl + " status secret 2>&1").exit_code, 0);
  EXPECT_EQ(run_program(ffdl + " scale secret 1 2>&1").exit_code, 0);
  const std::string url = read(job_folder("secret/store_url"));
  const auto refused = run_program(ffdl + " status secret --store " + url + " 2>&1");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("another secret"), std::string::npos) << refused.out;
}

// Another process has written the record. The name of its worker would clear the screen.
TEST_F(RunTest, NoControlCharacterOfAnotherProcessIsPrinted) {
  StartedProgram job(kRun + "--job plain -- sh -c 'echo up; exec sleep 1000'", file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("] up"); })) << job.output();
  {
    const auto store = open_store("tcp://" + job_folder("plain/store"), system_runtime());
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    const std::string record =
        R"({"node":7,"process":1,"min_workers":1,"max_workers":2,"workers":[{"id":)"
        R"("\u001b[2J\nevil","phase":"\u009b31m","process":9,"restarts":0}]})";
    ASSERT_TRUE((*store)->put("ffdl/plain/launch/nodes/7", record).ok());
  }
  const std::string ffdl = kFfdlProgram;
  const auto table = run_program(ffdl + " status plain 2>&1");
  EXPECT_EQ(table.exit_code, 0) << table.out;
  EXPECT_NE(table.out.find("\\x1b[2J\\nevil"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\\u{9b}31m"), std::string::npos) << table.out;
  const auto json = run_program(ffdl + " status plain --json 2>&1");
  EXPECT_EQ(json.exit_code, 0) << json.out;
  EXPECT_NE(json.out.find("\\u001b[2J\\nevil"), std::string::npos) << json.out;
  EXPECT_NE(json.out.find("\\u009b31m"), std::string::npos) << json.out;
  for (const std::string& out : {table.out, json.out}) {
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
    EXPECT_EQ(out.find("\xc2\x9b"), std::string::npos) << out;
  }
}

TEST_F(RunTest, ATemporaryFolderThatIsNotThereIsSaid) {
  const std::string variable = "TMPDIR=" + file("not-there") + " ";
  for (const std::string arguments :
       {"run true", "status a", "scale a 1", "migrate a 0", "doctor"}) {
    const auto outcome = run_program(variable + kFfdlProgram + " " + arguments + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 1) << arguments;
    EXPECT_NE(outcome.out.find("TMPDIR does not exist"), std::string::npos) << outcome.out;
  }
}

TEST_F(RunTest, ARequestIsRefusedWhileAnotherIsCarriedOut) {
  const auto scale = [](const std::string& to) {
    return run_program(std::string(kFfdlProgram) + " scale slow " + to + " 2>&1");
  };
  StartedProgram job(kRun +
                         "--job slow --workers 1:2 --grace 1000 -- "
                         "sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.01; done'",
                     file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("[worker-0] up") && job.wrote("[worker-1] up"); }))
      << job.output();
  EXPECT_TRUE(comes_true([&] { return scale("1 --if-settled").exit_code == 0; }));
  const auto refused = scale("2 --if-settled");  // worker-1 does not end
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("'worker-1' is to end; try again"), std::string::npos) << refused.out;
  EXPECT_EQ(scale("2").exit_code, 0);
  job.signal(SIGINT);
  ASSERT_TRUE(comes_true([&] { return job.wrote("are asked to end"); })) << job.output();
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.output();
}

TEST_F(RunTest, AJobHasOneSupervisorOfANode) {
  StartedProgram job(kRun + "--job one -- sh -c 'echo up; exec sleep 1000'", file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("up"); })) << job.output();
  const auto second = run("--job one true");
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.out.find("another 'ffdl run' on this host"), std::string::npos) << second.out;
}

// Returns the endpoint at which the first node of a job reports to serve its store.
std::string endpoint_of(StartedProgram& first) {
  EXPECT_TRUE(comes_true([&] { return first.wrote("store tcp://127.0.0.1:"); })) << first.output();
  const std::string said = first.output();
  const size_t port = said.find("127.0.0.1:") + 10;
  return "127.0.0.1:" + std::to_string(std::stoi(said.substr(port)));
}

TEST_F(RunTest, NodesMeetAtAnEndpointWithASecret) {
  ::setenv("FFDL_STORE_SECRET", "of this test", 1);
  const std::string nodes = "--nnodes 2 --nproc-per-node 1 --job both ";
  StartedProgram first(
      kRun + nodes + "--node-rank 0 --rdzv-endpoint 127.0.0.1:0 -- " + kMember + " 20",
      file("first"));
  const std::string endpoint = endpoint_of(first);
  StartedProgram second(
      kRun + nodes + "--node-rank 1 --rdzv-endpoint " + endpoint + " -- " + kMember + " 20",
      file("second"));
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(first.wait(), 0) << first.output();
  ::unsetenv("FFDL_STORE_SECRET");
  EXPECT_TRUE(first.wrote("does not survive the loss of that host")) << first.output();
  EXPECT_TRUE(second.wrote("[worker-1] joined")) << second.output();
}

TEST_F(RunTest, AGeneratedSecretOfAnEndpointReachesTheWorkers) {
  const auto outcome = run(
      "--nnodes 1 --rdzv-endpoint 127.0.0.1:0 -- sh -c 'echo has ${#FFDL_STORE_SECRET} letters'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("has 64 letters"), std::string::npos) << outcome.out;
}

// All give the same command. The first at the endpoint's host serves the store.
TEST_F(RunTest, NodesWithoutARankTakeOneEach) {
  const std::string same = kRun + "--nnodes 3 --nproc-per-node 1 --job three --rdzv-endpoint " +
                           "127.0.0.1:" + std::to_string(testing::free_port()) + " -- " + kMember +
                           " 20";
  StartedProgram a(same, file("a")), b(same, file("b")), c(same, file("c"));
  std::string all;
  for (StartedProgram* const node : {&a, &b, &c}) {
    EXPECT_EQ(node->wait(), 0) << node->output();
    all += node->output();
  }
  for (const char* const text : {"this is node 1\n", "this is node 2\n", "[worker-0] joined",
                                 "[worker-1] joined", "[worker-2] joined"}) {
    const size_t at = all.find(text);
    ASSERT_NE(at, all.npos) << text << all;
    EXPECT_EQ(all.find(text, at + 1), all.npos) << text << all;
  }
  EXPECT_TRUE(std::filesystem::is_empty(job_folder(""))) << "folders remain";
}

TEST_F(RunTest, AnEtcdOfTheJobsOwnLeavesNothing) {
  if (const auto why = testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
  const std::string name = "etcd-" + std::to_string(::getpid());
  const auto outcome = run("--workers 2 --store etcd --job " + name + " -- " + kMember + " 20");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("store etcd://127.0.0.1:"), std::string::npos) << outcome.out;
  EXPECT_TRUE(std::filesystem::is_empty(job_folder(""))) << "folders remain";
  EXPECT_TRUE(testing::running_programs("--data-dir=" + job_folder("")).empty());
}

// It is killed at any moment: before it has a rank, with the rank and no worker, or later.
TEST_F(RunTest, TheRankOfAKilledNodeIsFree) {
  const std::string endpoint = "127.0.0.1:" + std::to_string(testing::free_port());
  const std::string same =
      kRun + "--nnodes 2 --nproc-per-node 1 --job two --rdzv-endpoint " + endpoint + " -- ";
  StartedProgram first(same + kMember + " 400", file("first"));
  ASSERT_TRUE(comes_true([&] { return first.wrote("[worker-0] joined"); })) << first.output();
  for (int delay = 20; delay <= 320; delay *= 2) {
    StartedProgram killed(same + kMember, file("killed"));
    system_runtime().make_event()->wait_until(deadline_in(std::chrono::milliseconds(delay)));
    killed.signal(SIGKILL);
    killed.wait();
  }
  StartedProgram next(same + kMember + " 400", file("next"));
  EXPECT_EQ(next.wait(), 0) << next.output();
  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_TRUE(next.wrote("this is node 1\n")) << next.output();
}

// The other nodes would lose their store, so its node waits. It also waits for less than its full
// time-out.
TEST_F(RunTest, ANodeThatServesTheStoreWaitsForTheOthersUnlessItIsToldTwice) {
  const std::string nodes = "--nnodes 2 --nproc-per-node 1 --job both ";
  const std::string script = " -- sh -c 'echo up; exec sleep 1000'";
  StartedProgram first(kRun + nodes + "--node-rank 0 --rdzv-endpoint 127.0.0.1:0" + script,
                       file("first"));
  StartedProgram second(
      kRun + nodes + "--node-rank 1 --rdzv-endpoint " + endpoint_of(first) + script,
      file("second"));
  ASSERT_TRUE(comes_true([&] { return first.wrote("up") && second.wrote("up"); }));
  first.signal(SIGTERM);
  ASSERT_TRUE(comes_true([&] { return first.wrote("for 1 other nodes to end"); }))
      << first.output();
  const auto told = std::chrono::steady_clock::now();
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 128 + SIGTERM) << first.output();
  EXPECT_LT(std::chrono::steady_clock::now() - told, std::chrono::seconds(18));  // it waits 20 s
}

}  // namespace
}  // namespace ffdl
