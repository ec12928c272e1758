#include "elastic/staged_memory.h"

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
  FFDL_ASSIGN_OR_RETURN(made->stream_, gpu.side->make_stream());
  FFDL_ASSIGN_OR_RETURN(made->memory_, gpu.side->allocate_pinned(2 * slice_bytes));
  return made;
}

Status StagedMemory::follow() {
  const base::DeviceUse use(*gpu_.side, gpu_.number);
  FFDL_RETURN_IF_ERROR(use.status());
  return gpu_.side->follow_default(stream_.get());
}

// Whatever has failed: nothing touches the buffers or the slices afterwards.
Status StagedMemory::visit(std::span<const Buffer> buffers, Access access, const Body& body) {
  const base::DeviceUse use(*gpu_.side, gpu_.number);
  FFDL_RETURN_IF_ERROR(use.status());
  Status visited = visit_slices({buffers}, access, body);
  Status copied = gpu_.side->wait(stream_.get());
  return visited.ok() ? copied : visited;
}

// All copies are of one stream, which is waited for as a whole. So at each wait the other slice is
// what may still be copied: it is loaded while this one is read, or stored while this one is
// filled.
Status StagedMemory::visit_slices(Rest rest, Access access, const Body& body) {
  const bool loads = access == Access::kRead;
  const std::array<std::byte*, 2> places = {memory_.get(), memory_.get() + slice_bytes_};
  size_t place = 0;
  FFDL_ASSIGN_OR_RETURN(Slice next, cut_slice(rest, places[place]));
  if (loads) FFDL_RETURN_IF_ERROR(copy(next, Way::kToHost));
  while (!next.empty()) {
    if (loads) FFDL_RETURN_IF_ERROR(gpu_.side->wait(stream_.get()));
    const Slice slice = std::move(next);
    place = 1 - place;
    FFDL_ASSIGN_OR_RETURN(next, cut_slice(rest, places[place]));
    if (loads) FFDL_RETURN_IF_ERROR(copy(next, Way::kToHost));
    for (const Piece& piece : slice) FFDL_RETURN_IF_ERROR(body(piece.host));
    if (loads) continue;
    FFDL_RETURN_IF_ERROR(gpu_.side->wait(stream_.get()));
    FFDL_RETURN_IF_ERROR(copy(slice, Way::kToDevice));
  }
  return {};
}

// Many small buffers are one slice: they are waited for once.
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

Status StagedMemory::copy(const Slice& slice, Way way) {
  for (const Piece& piece : slice) {
    if (piece.host.data == piece.user.data) continue;
    const Buffer& from = way == Way::kToHost ? piece.user : piece.host;
    const Buffer& to = way == Way::kToHost ? piece.host : piece.user;
    FFDL_RETURN_IF_ERROR(gpu_.side->copy(to.data, from.data, bytes_of(from), stream_.get()));
  }
  return {};
}

}  // namespace ffdl::elastic
