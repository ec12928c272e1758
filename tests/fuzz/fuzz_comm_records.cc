// Reads arbitrary bytes as the records that members of a communicator exchange through the store.
// They are refused, or are the same when they are written again. Reads them as the greetings on a
// connection between two members, too: none of them proves anything.
#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "comm/api/introduction.h"
#include "comm/network/greeting.h"
#include "comm/network/meeting.h"
#include "comm/operation/world_key.h"
#include "shm/segment_place.h"

namespace {

using namespace ffdl;

void read_introduction(const std::string& text) {
  const auto introduction = comm::from_record(text);
  if (introduction.ok()) {
    FFDL_CHECK(comm::to_record(*introduction) == text, "an introduction is written in one way");
  } else {
    FFDL_CHECK(introduction.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  }
}

void read_link_record(std::string_view text) {
  const auto record = comm::link_record_of(text);
  if (!record.ok()) {
    FFDL_CHECK(record.status().code() == StatusCode::kCorrupt, "the only thing wrong");
    return;
  }
  FFDL_CHECK(record->port != 0 && record->seed.size() == 32, "a member that can be called");
  const auto again = comm::link_record_of(comm::to_record(*record));
  FFDL_CHECK(again.ok() && again->address == record->address && again->port == record->port &&
                 again->seed == record->seed,
             "a record that was written can be read");
}

// Checks the rest of a greeting from another process, after the called member has sent `challenge`.
void greet(const World& world, const comm::LinkChallenge& challenge, const comm::LinkProof& proof,
           const comm::LinkWelcome& welcome) {
  const comm::LinkGreeter greeter(world, std::string(32, 't'));
  const auto rank = greeter.check(challenge, proof);
  FFDL_CHECK(!rank.ok() && rank.status().code() == StatusCode::kPeerLost, "nobody is let in");
  comm::LinkProof asked{};  // from this member, which called
  asked.to = 1;
  FFDL_CHECK(!greeter.check(challenge, asked, welcome).ok(), "nobody is taken for the peer");
}

void read_greetings(std::string_view bytes) {
  comm::LinkChallenge challenge{};
  comm::LinkProof proof{};
  comm::LinkWelcome welcome{};
  if (bytes.size() < sizeof challenge + sizeof proof + sizeof welcome) return;
  std::memcpy(&challenge, bytes.data(), sizeof challenge);
  std::memcpy(&proof, bytes.data() + sizeof challenge, sizeof proof);
  std::memcpy(&welcome, bytes.data() + sizeof challenge + sizeof proof, sizeof welcome);
  static const World world = {.generation = 2, .rank = 0, .members = {{"a", 1}, {"b", 1}}};
  greet(world, challenge, proof, welcome);
  // Sets all fields but the proof that only members can compute.
  proof.generation = world.generation;
  proof.members = comm::world_hash(world);
  proof.from = 1;
  proof.to = 0;
  greet(world, challenge, proof, welcome);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string record(reinterpret_cast<const char*>(data), size);
  read_introduction(record);
  read_link_record(record);
  read_greetings(record);
  const shm::SegmentPlace place = shm::segment_place_of(record);
  FFDL_CHECK(shm::segment_place_of(shm::to_text(place)) == place, "a place that is read is whole");
  return 0;
}
