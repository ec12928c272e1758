#include "comm/network/tcp_connection.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::comm {
namespace {

// Reads or writes in a row, before the other direction and other connections have their turn.
constexpr int kMovesMax = 8;

void complete(OpenTransfers* owner) {
  if (owner != nullptr) --owner->count;
}

}  // namespace

TcpConnection::TcpConnection(std::unique_ptr<net::ByteStream> stream)
    : stream_(std::move(stream)), staged_(base::kLinkStagedBytes) {}

void TcpConnection::send(Tag tag, const std::byte* data, uint64_t bytes, OpenTransfers& owner) {
  FFDL_CHECK(!has_ended(), "the caller reports the end of a connection");
  ++owner.count;
  queue(FrameKind::kMessage, tag, data, bytes, &owner);
}

void TcpConnection::queue(FrameKind kind, Tag tag, const std::byte* data, uint64_t bytes,
                          OpenTransfers* owner) {
  const bool is_first = sends_.empty();
  sends_.push_back({.header = to_header({kind, tag, ++queued_, bytes}),
                    .tag = tag,
                    .is_receipt = kind == FrameKind::kReceipt,
                    .data = data,
                    .bytes = bytes,
                    .owner = owner});
  if (is_first) write_some();
}

void TcpConnection::receive(Tag tag, std::byte* data, uint64_t room, OpenTransfers& owner) {
  FFDL_CHECK(!has_ended(), "the caller reports the end of a connection");
  ++owner.count;
  receives_of(tag).push_back({.data = data, .room = room, .owner = &owner});
}

bool TcpConnection::move() {
  const bool has_read = read_some();
  return write_some() || has_read;
}

bool TcpConnection::write_some() {
  bool has_moved = false;
  for (int writes = 0; !has_ended() && !sends_.empty() && writes < kMovesMax; ++writes) {
    Sending& sending = sends_.front();
    std::array<iovec, 2> parts{};
    size_t count = 0;
    if (sending.written < kFrameHeaderBytes) {
      parts[count++] = {sending.header.data() + sending.written,
                        kFrameHeaderBytes - sending.written};
    }
    const uint64_t sent = sending.written - std::min<uint64_t>(sending.written, kFrameHeaderBytes);
    if (sending.bytes > sent) {
      // The kernel only reads it.
      parts[count++] = {const_cast<std::byte*>(sending.data) + sent, sending.bytes - sent};
    }
    const net::Moved moved = stream_->write({parts.data(), count});
    if (moved.has_ended) {
      end(Status(StatusCode::kPeerLost, moved.cause));
      return has_moved;
    }
    if (moved.bytes == 0) return has_moved;
    has_moved = true;
    sending.written += moved.bytes;
    if (sending.written < kFrameHeaderBytes + sending.bytes) continue;
    if (!sending.is_receipt && is_confirmed(sending.tag)) {
      unconfirmed_.push_back(sending.owner);
    } else {
      complete(sending.owner);
    }
    sends_.pop_front();
  }
  return has_moved;
}

bool TcpConnection::is_stalled() const {
  return frame_ && receives_[static_cast<size_t>(frame_->tag)].empty();
}

bool TcpConnection::read_some() {
  bool has_moved = false;
  for (int reads = 0; reads < kMovesMax; ++reads) {
    take_staged();
    if (has_ended() || is_stalled() || !read_once()) return has_moved;
    has_moved = true;
  }
  take_staged();
  return has_moved;
}

// Reads the rest of the message that is arriving, and some of what follows it.
bool TcpConnection::read_once() {
  std::array<iovec, 2> parts{};
  size_t count = 0;
  uint64_t rest = 0;
  if (frame_) {
    rest = frame_->bytes - arrived_;
    parts[count++] = {receives_of(frame_->tag).front().data + arrived_, rest};
  }
  std::memmove(staged_.data(), staged_.data() + staged_begin_, staged_end_ - staged_begin_);
  staged_end_ -= staged_begin_;
  staged_begin_ = 0;
  parts[count++] = {staged_.data() + staged_end_, staged_.size() - staged_end_};
  const net::Moved moved = stream_->read({parts.data(), count});
  const uint64_t straight = std::min(moved.bytes, rest);
  arrived_ += straight;
  staged_end_ += moved.bytes - straight;
  if (moved.has_ended) end(Status(StatusCode::kPeerLost, moved.cause));
  return moved.bytes > 0;
}

void TcpConnection::take_staged() {
  while (!has_ended()) {
    if (!frame_ && !take_header()) return;
    if (frame_ && !take_body()) return;
  }
}

// Returns whether a frame has been taken: a receipt as a whole, or the header of a message.
bool TcpConnection::take_header() {
  if (staged_end_ - staged_begin_ < kFrameHeaderBytes) return false;
  const std::span<const std::byte, kFrameHeaderBytes> header(staged_.data() + staged_begin_,
                                                             kFrameHeaderBytes);
  const Result<TcpFrame> frame = frame_of(header, ++begun_);
  if (!frame.ok()) {
    end(frame.status());
    return false;
  }
  staged_begin_ += kFrameHeaderBytes;
  if (frame->kind == FrameKind::kReceipt) {
    take_receipt();
  } else {
    frame_ = *frame;
    arrived_ = 0;
  }
  return true;
}

void TcpConnection::take_receipt() {
  if (unconfirmed_.empty()) {
    end(Status(StatusCode::kCorrupt, "a receipt of a message that it was not sent"));
    return;
  }
  complete(unconfirmed_.front());
  unconfirmed_.pop_front();
}

// Returns whether the message has completed.
bool TcpConnection::take_body() {
  if (is_stalled()) return false;
  const Receiving& to = receives_of(frame_->tag).front();
  if (frame_->bytes > to.room) {
    end(base::make_error(StatusCode::kCorrupt, "a message of {} bytes where at most {} fit",
                         frame_->bytes, to.room));
    return false;
  }
  const uint64_t taken = std::min<uint64_t>(frame_->bytes - arrived_, staged_end_ - staged_begin_);
  if (taken > 0) std::memcpy(to.data + arrived_, staged_.data() + staged_begin_, taken);
  arrived_ += taken;
  staged_begin_ += taken;
  if (arrived_ < frame_->bytes) return false;
  complete_receive();
  return true;
}

// A receive of a confirmed message completes when its receipt has been written.
void TcpConnection::complete_receive() {
  const Tag tag = frame_->tag;
  OpenTransfers* const owner = receives_of(tag).front().owner;
  receives_of(tag).pop_front();
  frame_.reset();
  if (is_confirmed(tag)) {
    queue(FrameKind::kReceipt, tag, nullptr, 0, owner);
  } else {
    complete(owner);
  }
}

short TcpConnection::wanted_events() const {
  if (has_ended()) return 0;
  int events = is_stalled() ? 0 : POLLIN;
  if (!sends_.empty()) events |= POLLOUT;
  if (!is_hung_up_) events |= POLLRDHUP;
  return static_cast<short>(events);
}

void TcpConnection::end(Status cause) {
  if (has_ended()) return;
  ended_ = std::move(cause);
  stream_->shut_down();
}

bool TcpConnection::is_used_by(const OpenTransfers& owner) const {
  const auto is_owners = [&](const auto& transfer) { return transfer.owner == &owner; };
  return std::ranges::any_of(sends_, is_owners) ||
         std::ranges::find(unconfirmed_, &owner) != unconfirmed_.end() ||
         std::ranges::any_of(receives_, [&](const Receives& receives) {
           return std::ranges::any_of(receives, is_owners);
         });
}

Status TcpConnection::loss_for(const OpenTransfers& owner) const {
  const bool is_behind_hangup = is_hung_up_ && is_stalled();
  if ((!has_ended() && !is_behind_hangup) || !is_used_by(owner)) return {};
  if (has_ended()) return ended_;
  return Status(StatusCode::kPeerLost, "it has closed its connection");
}

void TcpConnection::forget(const OpenTransfers& owner) {
  const auto is_owners = [&](const auto& transfer) { return transfer.owner == &owner; };
  bool is_incomplete = std::erase_if(sends_, is_owners) > 0;
  std::ranges::replace(unconfirmed_, const_cast<OpenTransfers*>(&owner),
                       static_cast<OpenTransfers*>(nullptr));
  for (size_t tag = 0; tag < kTagCount; ++tag) {
    Receives& receives = receives_[tag];
    const bool is_arriving = frame_ && static_cast<size_t>(frame_->tag) == tag && arrived_ > 0;
    is_incomplete |= is_arriving && !receives.empty() && is_owners(receives.front());
    std::erase_if(receives, is_owners);
  }
  if (is_incomplete) end(Status(StatusCode::kPeerLost, "a transfer was abandoned"));
}

}  // namespace ffdl::comm
