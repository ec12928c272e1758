#include "elastic/state/staged_memory.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace ffdl::elastic {
namespace {

constexpr uint64_t kAlignment = 64;

uint64_t room_of(const Buffer& piece) {
  return (bytes_of(piece) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<std::unique_ptr<StagedMemory>> StagedMemory::create(base::ChosenGpu chosen,
                                                           uint64_t slice_bytes) {
  FFDL_CHECK(slice_bytes >= base::kStatePieceBytes, "a slice that no piece fits into");
  auto made = std::unique_ptr<StagedMemory>(new StagedMemory(std::move(chosen), slice_bytes));
  const base::Gpu& gpu = made->gpu_;
  const base::DeviceUse use(*gpu.side, gpu.number);
  FFDL_RETURN_IF_ERROR(use.status());
  for (base::SideStream& stream : made->streams_) {
    FFDL_ASSIGN_OR_RETURN(stream, gpu.side->make_stream());
  }
  FFDL_ASSIGN_OR_RETURN(made->memory_, gpu.side->allocate_pinned(2 * slice_bytes));
  return made;
}

Status StagedMemory::follow() {
  const base::DeviceUse use(*gpu_.side, gpu_.number);
  FFDL_RETURN_IF_ERROR(use.status());
  for (const base::SideStream& stream : streams_) {
    FFDL_RETURN_IF_ERROR(gpu_.side->follow_default(stream.get()));
  }
  return {};
}

// Returns when nothing touches the buffers or the slices any more, even after a failure.
Status StagedMemory::visit(std::span<const Buffer> buffers, Access access, const Body& body) {
  const base::DeviceUse use(*gpu_.side, gpu_.number);
  FFDL_RETURN_IF_ERROR(use.status());
  Status visited = visit_slices({buffers}, access, body);
  for (const base::SideStream& stream : streams_) {
    Status copied = gpu_.side->wait(stream.get());
    if (visited.ok()) visited = std::move(copied);
  }
  return visited;
}

// Visits slice after slice. Each of the two places has a stream, which alone is waited for. So the
// other slice is copied during the wait and the visit, and the bus does not pause between two.
Status StagedMemory::visit_slices(Rest rest, Access access, const Body& body) {
  const bool loads = access == Access::kRead;
  std::array<Slice, 2> slices;
  const auto cut_at = [&](size_t place) -> Status {
    FFDL_ASSIGN_OR_RETURN(slices[place], cut_slice(rest, memory_.get() + place * slice_bytes_));
    return {};
  };
  const auto load_at = [&](size_t place) -> Status {
    FFDL_RETURN_IF_ERROR(cut_at(place));
    return copy(slices[place], Way::kToHost, streams_[place].get());
  };
  if (loads) {
    FFDL_RETURN_IF_ERROR(load_at(0));
    FFDL_RETURN_IF_ERROR(load_at(1));
  }
  for (size_t place = 0;; place = 1 - place) {
    FFDL_RETURN_IF_ERROR(gpu_.side->wait(streams_[place].get()));
    if (!loads) FFDL_RETURN_IF_ERROR(cut_at(place));
    if (slices[place].empty()) return {};
    for (const Piece& piece : slices[place]) FFDL_RETURN_IF_ERROR(body(piece.host));
    if (loads) {
      FFDL_RETURN_IF_ERROR(load_at(place));
    } else {
      FFDL_RETURN_IF_ERROR(copy(slices[place], Way::kToDevice, streams_[place].get()));
    }
  }
}

// Cuts one slice. Many small buffers share a slice, so that they need only one wait.
Result<StagedMemory::Slice> StagedMemory::cut_slice(Rest& rest, std::byte* into) {
  Slice slice;
  uint64_t used = 0;
  while (!rest.buffers.empty()) {
    const Buffer& buffer = rest.buffers.front();
    if (rest.begin == buffer.count) {
      rest = {rest.buffers.subspan(1)};
      continue;
    }
    Piece piece;
    piece.user = cut_piece(buffer, rest.begin);
    piece.host = piece.user;
    FFDL_ASSIGN_OR_RETURN(const bool on_device, gpu_.side->holds(piece.user.data));
    if (on_device) {
      if (used + room_of(piece.user) > slice_bytes_) break;
      piece.host.data = into + used;
      used += room_of(piece.user);
    }
    rest.begin += piece.user.count;
    slice.push_back(piece);
  }
  return slice;
}

// Copies neighbouring pieces of both sides at once.
Status StagedMemory::copy(const Slice& slice, Way way, base::DeviceStream stream) {
  for (size_t i = 0; i < slice.size();) {
    auto* const host = static_cast<std::byte*>(slice[i].host.data);
    auto* const user = static_cast<std::byte*>(slice[i].user.data);
    uint64_t bytes = 0;
    do {
      bytes += bytes_of(slice[i++].user);
    } while (i < slice.size() && slice[i].host.data == host + bytes &&
             slice[i].user.data == user + bytes);
    if (host == user) continue;
    void* const to = way == Way::kToHost ? host : user;
    const void* const from = way == Way::kToHost ? user : host;
    FFDL_RETURN_IF_ERROR(gpu_.side->copy(to, from, bytes, stream));
  }
  return {};
}

}  // namespace ffdl::elastic
