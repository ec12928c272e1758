#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "comm/network/tcp_frame.h"
#include "net/byte_stream.h"

namespace ffdl::comm {

// The number of transfers of one owner that have not completed.
struct OpenTransfers {
  uint64_t count = 0;
};

// The messages between this member and one other, over one stream. The bytes of a message go from
// the sender's memory to the stream, and from there to the receiver's memory. A message for which
// no receive has been posted is not read, and neither is anything behind it.
// Threads: one at a time.
class TcpConnection {
 public:
  explicit TcpConnection(std::unique_ptr<net::ByteStream> stream);

  // Starts a transfer that is counted in `owner` until it has completed: when the message has
  // arrived, or when its memory may be used again, which for a confirmed message is when its
  // receipt has come. Requires a connection that has not ended.
  void send(Tag tag, const std::byte* data, uint64_t bytes, OpenTransfers& owner);
  void receive(Tag tag, std::byte* data, uint64_t room, OpenTransfers& owner);

  // Moves bytes both ways, without waiting. Returns whether any have moved.
  bool move();
  // Moves bytes to the stream only.
  bool write_some();

  // Returns the events that poll() shall report, 0 for none.
  short wanted_events() const;
  // Records that the other side sends nothing more than what has arrived.
  void note_hangup() { is_hung_up_ = true; }

  // Ends the connection. The first cause counts.
  void end(Status cause);
  bool has_ended() const { return !ended_.ok(); }
  // Returns kPeerLost, or kCorrupt for bytes that no member sends; OK before the end.
  const Status& ended() const { return ended_; }

  bool has_unsent() const { return !sends_.empty(); }
  // Returns whether a transfer of `owner` has not completed.
  bool is_used_by(const OpenTransfers& owner) const;
  // Returns why no transfer of `owner` can complete, or OK. A connection whose other side has hung
  // up behind a message without a receive gives nothing more to a caller that waits.
  Status loss_for(const OpenTransfers& owner) const;
  // Removes the transfers of `owner`. Ends the connection if that leaves a message incomplete.
  void forget(const OpenTransfers& owner);

 private:
  struct Sending {
    FrameHeader header;
    Tag tag = Tag::kFirst;
    bool is_receipt = false;
    const std::byte* data = nullptr;
    uint64_t bytes = 0;
    uint64_t written = 0;  // of header and data
    OpenTransfers* owner = nullptr;
  };
  struct Receiving {
    std::byte* data = nullptr;
    uint64_t room = 0;
    OpenTransfers* owner = nullptr;
  };
  using Receives = std::deque<Receiving>;

  Receives& receives_of(Tag tag) { return receives_[static_cast<size_t>(tag)]; }
  bool is_stalled() const;
  void queue(FrameKind kind, Tag tag, const std::byte* data, uint64_t bytes, OpenTransfers* owner);
  bool read_some();
  bool read_once();
  void take_staged();
  bool take_header();
  bool take_body();
  void take_receipt();
  void complete_receive();

  const std::unique_ptr<net::ByteStream> stream_;
  Status ended_;
  bool is_hung_up_ = false;

  std::deque<Sending> sends_;
  std::deque<OpenTransfers*> unconfirmed_;  // owners of messages that await a receipt
  uint64_t queued_ = 0;                     // frames

  std::array<Receives, kTagCount> receives_;
  std::optional<TcpFrame> frame_;  // the message that is arriving
  uint64_t arrived_ = 0;           // bytes of it
  uint64_t begun_ = 0;             // frames
  std::vector<std::byte> staged_;  // bytes that were read ahead: [staged_begin_, staged_end_)
  size_t staged_begin_ = 0;
  size_t staged_end_ = 0;
};

}  // namespace ffdl::comm
