#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/store.h"

// Writes requests to etcd's JSON gateway as texts, and reads its answers as values. Pure.
// Errors: kCorrupt, from all that read answers: the text is not etcd's.
namespace ffdl::store::etcd {

std::string get_request(std::string_view key);
std::string list_request(std::string_view prefix);
// Asks for the keys of a list alone, as they were at revision `at`.
std::string old_keys_request(std::string_view prefix, Revision at);
// Asks only for the newest revision.
std::string newest_request();
std::string put_request(std::string_view key, std::string_view value, LeaseId lease);
std::string compare_and_put_request(std::string_view key, Revision expected, std::string_view value,
                                    LeaseId lease);
std::string remove_request(std::string_view key);
std::string grant_request(uint64_t seconds);
std::string authenticate_request(std::string_view user, std::string_view password);
std::string lease_request(LeaseId lease);  // to keep it alive, and to end it
// Asks for all changes of a prefix from revision `from` on.
std::string watch_request(std::string_view prefix, Revision from);

struct Range {
  Revision newest = 0;  // of the store, when these were its entries
  std::vector<Entry> entries;
};
Result<Range> read_range(std::string_view text);

// Reads the answer to a put or a removal: the store's newest revision, which is that of the change
// if there was one.
Result<Revision> read_change(std::string_view text);

struct Compared {
  Revision newest = 0;  // of the put, if it was done
  bool is_done = false;
  Revision present = 0;  // of the key, if not; 0: it is absent
};
Result<Compared> read_compared(std::string_view text);

// Reads the token that a user has got for its password.
Result<std::string> read_token(std::string_view text);
Result<LeaseId> read_granted(std::string_view text);
// Reads whether the lease existed and was kept alive.
Result<bool> read_kept(std::string_view text);

// One line of a watch.
struct Watched {
  Revision newest = 0;     // of its changes; 0: none
  Revision compacted = 0;  // not 0: changes up to here are no longer known, and the watch is over
  bool is_over = false;
  std::string why{};  // the reason if it is over
};
Result<Watched> read_watched(std::string_view line);

struct Version {
  uint64_t major = 0;
  uint64_t minor = 0;
};
Result<Version> read_version(std::string_view text);

// Converts an answer other than 200 to an error for the caller; `what` begins the message.
// kUnavailable: another attempt or member may succeed, and whether it had an effect is unknown.
// That also covers a text that is not etcd's. kNotFound: a lease that has ended, or a revision that
// is gone.
Status read_failure(std::string_view text, std::string_view what);
// Returns whether such an answer means that the token is missing, or no longer valid.
bool is_without_token(std::string_view text);

}  // namespace ffdl::store::etcd
