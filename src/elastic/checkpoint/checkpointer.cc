#include "elastic/checkpoint/checkpointer.h"

#include <algorithm>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "elastic/state/hashed_copy.h"

namespace ffdl::elastic {

using base::MutexLock;

namespace {

// Copies the share to `to`, one part after the other, and sets the hash of each part.
Status copy_parts(UserMemory& memory, std::span<const Buffer> share, std::byte* to,
                  std::span<ShardPart> parts) {
  auto part = parts.begin();
  uint64_t copied = 0;  // elements of the present part
  Hash hash;
  return memory.visit(share, Access::kRead, [&](const Buffer& piece) -> Status {
    copy_and_hash(to, static_cast<const std::byte*>(piece.data), bytes_of(piece), hash);
    to += bytes_of(piece);
    copied += piece.count;
    if (copied == part->count) {
      part->hash = hash.digest();
      ++part;
      copied = 0;
      hash = Hash();
    }
    return {};
  });
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointOptions& options, std::vector<TensorFacts> tensors,
                           Runtime& runtime, UserMemory& memory, Job job)
    : options_(options),
      tensors_(std::move(tensors)),
      runtime_(runtime),
      memory_(memory),
      job_(std::move(job)),
      folder_(options_.files != nullptr ? *options_.files : system_files(), options_.folder),
      wake_(runtime.make_event()),
      progress_(runtime.make_event()),
      last_(runtime.now()),
      task_(runtime.spawn("ffdl-checkpoint", [this](const StopToken& stop) { run(stop); })) {}

Checkpointer::~Checkpointer() { stop(); }

void Checkpointer::stop() {
  if (!task_) return;
  task_->request_stop();
  wake_->set();
  task_.reset();
}

// --- the session's thread ------------------------------------------------------------------------

CheckpointWord Checkpointer::word(uint64_t step) {
  const bool is_due = (options_.every_steps > 0 && step % options_.every_steps == 0) ||
                      (options_.every > Duration{} && runtime_.now() >= last_ + options_.every);
  const uint64_t lineage = job_.world().lineage;
  MutexLock lock(mutex_);
  return {is_due || is_requested_ ? uint64_t{1} : 0, pending_ ? pending_->label.step : 0,
          published_in(lineage)};
}

CheckpointWord Checkpointer::last_word(uint64_t step, uint64_t generation) {
  const bool is_due = options_.at_end && !has_published(step) && tried_last_in_ != generation;
  const uint64_t lineage = job_.world().lineage;
  MutexLock lock(mutex_);
  return {is_due ? uint64_t{1} : 0, pending_ ? pending_->label.step : 0, published_in(lineage)};
}

bool Checkpointer::has_published(uint64_t step) const {
  const auto newest = job_.newest();
  const uint64_t lineage = job_.world().lineage;
  if (newest && newest->step == step && newest->lineage == lineage) return true;
  MutexLock lock(mutex_);
  return published_in(lineage) == step;
}

// Returns the last published step of a lineage. A lineage that goes back to a checkpoint makes
// other steps with the same numbers.
uint64_t Checkpointer::published_in(uint64_t lineage) const {
  return published_lineage_ == lineage ? published_ : 0;
}

void Checkpointer::hear(const World& world, std::span<const CheckpointWord> words) {
  FFDL_CHECK(words.size() == world.members.size(), "each member sent a word about checkpoints");
  should_take_ = should_take(words);
  MutexLock lock(mutex_);
  if (!pending_) return;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    const bool is_author = std::find(pending_->authors.begin(), pending_->authors.end(),
                                     world.members[rank]) != pending_->authors.end();
    if (!is_author || words[rank].pending == pending_->label.step) continue;
    const bool is_published = words[rank].published == pending_->label.step;
    (is_published ? pending_->is_published : pending_->is_given_up) = true;
    wake_->set();
  }
}

void Checkpointer::take(const Moment& moment) {
  if (!std::exchange(should_take_, false)) return;
  last_ = runtime_.now();
  const auto pending = std::make_shared<Pending>();
  const World& world = *moment.world;
  FFDL_CHECK(world.rank >= 0 && world.rank < world.size(), "only a member takes a share");
  pending->label = {job_.name, world.lineage, world.generation, moment.step, moment.history};
  pending->authors = world.members;
  pending->rank = world.rank;
  pending->has_shard.resize(world.members.size());
  if (options_.metric) pending->metric = options_.metric();
  Status copied = copy_share(moment, *pending);
  {
    MutexLock lock(mutex_);
    is_requested_ = false;
    if (copied.ok()) pending_ = pending;
  }
  if (copied.ok()) {
    wake_->set();
  } else {  // the other members learn that this one has none in progress
    end(std::move(copied).with_context(fmt::format("write a checkpoint in '{}'", folder_.path())));
  }
}

void Checkpointer::take_last(const Moment& moment) {
  tried_last_in_ = moment.world->generation;
  take(moment);
}

Status Checkpointer::copy_share(const Moment& moment, Pending& pending) {
  const auto ranks = static_cast<int>(pending.authors.size());
  const std::vector<Piece> pieces = share_of(tensors_, pending.rank, ranks);
  uint64_t bytes = 0;
  for (const Piece& piece : pieces)
    bytes += piece.count * element_bytes(tensors_[piece.tensor].dtype);
  copy_.reserve(bytes);
  std::byte* place = copy_.data();
  std::vector<Buffer> share;
  for (const Piece& piece : pieces) {
    const TensorFacts& tensor = tensors_[piece.tensor];
    share.push_back({static_cast<std::byte*>(moment.state[piece.tensor].data) +
                         piece.begin * element_bytes(tensor.dtype),
                     piece.count, tensor.dtype});
    pending.parts.push_back({name_of(piece, tensor), tensor.dtype, piece.count, place});
    place += bytes_of(share.back());
  }
  FFDL_RETURN_IF_ERROR(memory_.follow());
  FFDL_RETURN_IF_ERROR(copy_parts(memory_, share, copy_.data(), pending.parts));
  if (pending.rank != 0) return {};
  pending.participants = moment.save_participants();
  if (options_.note) pending.note = options_.note();
  pending.parts.push_back({std::string(kParticipantsTensor), DType::kInt8,
                           pending.participants.size(), pending.participants.data()});
  pending.parts.push_back(
      {std::string(kNoteTensor), DType::kInt8, pending.note.size(), pending.note.data()});
  return {};
}

void Checkpointer::stable(uint64_t step) {
  MutexLock lock(mutex_);
  stable_ = step;
  if (pending_) wake_->set();
}

void Checkpointer::request() {
  MutexLock lock(mutex_);
  is_requested_ = true;
}

bool Checkpointer::is_written() const {
  MutexLock lock(mutex_);
  return !pending_ || pending_->is_written;
}

bool Checkpointer::is_idle() const {
  MutexLock lock(mutex_);
  return !pending_;
}

Checkpointer::Stats Checkpointer::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

Result<std::optional<Checkpoint>> Checkpointer::load(const std::optional<CheckpointPointer>& base,
                                                     std::span<const Buffer> into) const {
  std::vector<WrittenManifest> candidates;
  if (base) candidates.push_back({base->manifest, base->hash});
  if (base ? options_.skip_damaged : options_.resume) {
    FFDL_ASSIGN_OR_RETURN(const auto published, folder_.list_published());
    for (const WrittenManifest& one : published) {
      if (base && one.path == base->manifest) continue;
      candidates.push_back(one);
    }
  }
  return folder_.load_first(candidates, options_.skip_damaged, tensors_, memory_, into);
}

// --- the task ------------------------------------------------------------------------------------

void Checkpointer::run(const StopToken& stop) {
  while (true) {
    wake_->reset();  // before the look: later changes set the event again
    if (stop.stop_requested()) return;
    std::shared_ptr<Pending> pending;
    {
      MutexLock lock(mutex_);
      pending = pending_;
    }
    if (!pending) {
      wake_->wait_until(kNoDeadline);
      continue;
    }
    if (!pending->is_written) {
      const Status written = write(*pending);
      if (!written.ok()) {
        give_up(*pending, written);
        continue;
      }
      MutexLock lock(mutex_);
      pending->is_written = true;
      progress_->set();
    }
    switch (decide_checkpoint(look(*pending))) {
      case CheckpointAction::kWait:
        wake_->wait_until(runtime_.now() + base::kStandingInterval);
        break;
      case CheckpointAction::kPublish: {
        const Status published = publish(*pending);
        if (published.ok()) {
          end({});
        } else {
          give_up(*pending, published);
        }
        break;
      }
      case CheckpointAction::kDone:
        end({});
        break;
      case CheckpointAction::kDrop:
        give_up(*pending,
                base::make_error(StatusCode::kPeerLost,
                                 "write checkpoint '{}': a member that writes a share of it died, "
                                 "could not write its share, or is at another step",
                                 path_in(folder_.path(), folder_name(pending->label))));
        break;
    }
  }
}

Status Checkpointer::write(const Pending& pending) const {
  if (pending.note.size() > base::kNoteBytesMax) {
    return base::make_error(StatusCode::kExhausted,
                            "write a checkpoint in '{}': the note has {} bytes; give at most {}",
                            folder_.path(), pending.note.size(), base::kNoteBytesMax);
  }
  const Status removed = folder_.remove_abandoned(pending.label);
  if (!removed.ok()) base::log_warning("{}; abandoned files stay in the folder", removed.message());
  return folder_.write_shard(pending.label, pending.rank, static_cast<int>(pending.authors.size()),
                             pending.parts);
}

CheckpointFacts Checkpointer::look(Pending& pending) const {
  CheckpointFacts facts;
  facts.rank = pending.rank;
  const World world = job_.world();
  facts.is_lineage_over = world.lineage != pending.label.lineage;
  const auto newest = job_.newest();
  facts.is_published = newest && newest->lineage == pending.label.lineage &&
                       std::pair(newest->generation, newest->step) >=
                           std::pair(pending.label.generation, pending.label.step);
  const auto ranks = static_cast<int>(pending.authors.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    const Member& member = pending.authors[index];
    const bool is_member =
        std::find(world.members.begin(), world.members.end(), member) != world.members.end();
    // Asks in this order, so that a shard written before a life ends is seen.
    const bool is_here = job_.is_here(member);
    if (!pending.has_shard[index]) {
      pending.has_shard[index] = folder_.has_shard(pending.label, rank, ranks);
    }
    facts.authors.push_back({is_here, is_member, pending.has_shard[index]});
  }
  MutexLock lock(mutex_);
  facts.is_stable = stable_ >= pending.label.step;
  facts.is_given_up = pending.is_given_up;
  facts.is_published = facts.is_published || pending.is_published;
  return facts;
}

Status Checkpointer::publish(const Pending& pending) const {
  const CheckpointLabel& label = pending.label;
  FFDL_ASSIGN_OR_RETURN(const WrittenManifest manifest,
                        folder_.write_manifest({label, pending.metric, tensors_, {}}, pending.rank,
                                               static_cast<int>(pending.authors.size())));
  const CheckpointPointer pointer = {label.lineage, label.generation, label.step, manifest.path,
                                     manifest.hash};
  FFDL_RETURN_IF_ERROR(job_.publish(pointer, runtime_.now() + base::kPublishPatience));
  FFDL_RETURN_IF_ERROR(folder_.mark_published(label, manifest.hash));
  base::log_info("job '{}': step {} is in checkpoint '{}'", job_.name, label.step,
                 path_in(folder_.path(), folder_name(label)));
  // If another member published a newer one before this one was marked, that member removes old
  // ones. Later publications have a higher number, and are not removed.
  if (!job_.publish(pointer, runtime_.now() + base::kPublishPatience).ok()) return {};
  const Status removed =
      folder_.remove_old({label.job, folder_name(label), options_.keep_last, options_.keep_best});
  if (!removed.ok())
    base::log_warning("{}; the old checkpoint stays in the folder", removed.message());
  return {};
}

// Discards the share before end(), since no member begins another checkpoint until then.
void Checkpointer::give_up(const Pending& pending, const Status& why) {
  const Status removed =
      folder_.discard_share(pending.label, pending.rank, static_cast<int>(pending.authors.size()));
  if (!removed.ok())
    base::log_warning("{}; this member's share stays in the folder", removed.message());
  end(why);
}

void Checkpointer::end(const Status& outcome) {
  if (!outcome.ok()) {
    base::log_warning("{}; the previous checkpoint stays valid, and training continues",
                      outcome.message());
  }
  MutexLock lock(mutex_);
  if (outcome.ok()) {
    published_lineage_ = pending_->label.lineage;
    published_ = pending_->label.step;
  }
  pending_.reset();
  ++(outcome.ok() ? stats_.published : stats_.dropped);
  stats_.last = outcome;
  progress_->set();
}

}  // namespace ffdl::elastic
