#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/supervisor.h"

// Which workers a job wants: what it shall have after each request to scale it, or to move one.
namespace ffdl::launch {

// In the order of their places: a worker's place is the RANK that it is told.
using WantedWorkers = std::vector<WantedWorker>;

WantedWorkers first_workers(int count);
// -1: it is not wanted.
int place_of(const WantedWorkers& wanted, int number);
std::string id_of(int number);  // "worker-5" of 5
// The other way; -1: it is no worker's id.
int number_of(std::string_view id);
// Those that give their place to one that is wanted, until that one has finished: they end by
// themselves.
std::set<int> handing_over(const RunStatus& run);

// Fewer: the last places go. More: the smallest numbers that are not wanted come.
WantedWorkers scaled(WantedWorkers wanted, int count);
// Worker `to` has the place of `from`. The first is not wanted yet, the second is.
WantedWorkers moved(WantedWorkers wanted, int from, int to);

// "3" are workers 0 to 2; "2: 0 3<1" are worker 0, and worker 3 which takes over from worker 1.
std::string encode(const WantedWorkers& wanted);
// Empty: nobody would have written it.
WantedWorkers parse_wanted(std::string_view text);

}  // namespace ffdl::launch
