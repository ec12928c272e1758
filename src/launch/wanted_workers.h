#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/launch/running_job.h"

// The workers that a job wants: the set after each request to scale the job, or to move a worker.
namespace ffdl::launch {

// Lists workers in the order of their places. A worker's place is the RANK that it receives.
using WantedWorkers = std::vector<WantedWorker>;

WantedWorkers first_workers(int count);
// Returns the place of a worker; -1: it is not wanted.
int place_of(const WantedWorkers& wanted, int number);
std::string id_of(int number);  // "worker-5" of 5
// Returns the number of a worker's id; -1: it is no worker's id.
int number_of(std::string_view id);
// Returns the workers that hand their place to a wanted one which has not finished. They end by
// themselves.
std::set<int> handing_over(const RunStatus& run);

// Changes the number of workers. A smaller count removes the last places. A larger one adds the
// smallest numbers that are not wanted.
WantedWorkers scaled(WantedWorkers wanted, int count);
// Gives worker `to` the place of `from`. `to` must not be wanted yet, and `from` must be.
WantedWorkers moved(WantedWorkers wanted, int from, int to);

// Encodes as text. "3" means workers 0 to 2; "2: 0 3<1" means worker 0, and worker 3 which takes
// over from worker 1.
std::string encode(const WantedWorkers& wanted);
// Parses such text; empty: no writer produces it.
WantedWorkers parse_wanted(std::string_view text);

}  // namespace ffdl::launch
