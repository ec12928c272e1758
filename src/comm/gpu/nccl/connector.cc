#include "comm/gpu/nccl/connector.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "comm/gpu/nccl/choice.h"
#include "comm/operation/gather.h"

namespace ffdl::comm {

using base::make_error;

namespace {

// The data that each rank sends to the others.
struct Card {
  int32_t version = 0;  // of NCCL; 0: this rank cannot take part
  GpuWorlds worlds = GpuWorlds::kFresh;
};

}  // namespace

struct NcclConnector::Told {
  int32_t is_made = 0;
  nccl::UniqueId id{};
};

Status NcclConnector::lacks(size_t rank) const {
  return make_error(StatusCode::kUnimplemented,
                    "connect generation {} as rank {}: rank {} '{}' has no usable GPU or no usable "
                    "NCCL; read the error message of that rank",
                    world_.generation, world_.rank, rank, world_.members[rank].id);
}

Status NcclConnector::agree(const Status& mine, const Result<Library>& library, GpuWorlds worlds,
                            Time deadline) {
  const Card card = {mine.ok() ? (*library)->version() : 0, worlds};
  FFDL_ASSIGN_OR_RETURN(const std::vector<Card> cards, gather_from_all(host_, card, deadline));
  FFDL_RETURN_IF_ERROR(Status(mine));
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const std::string& id = world_.members[rank].id;
    if (cards[rank].version == 0) return lacks(rank);
    if (cards[rank].version != card.version) {
      return base::invalid_argument(
          "connect generation {} as rank {}: rank {} '{}' has NCCL {}, this rank has {}; install "
          "the same NCCL at all members",
          world_.generation, world_.rank, rank, id, nccl_version_text(cards[rank].version),
          nccl_version_text(card.version));
    }
    if (cards[rank].worlds == worlds) continue;
    return base::invalid_argument(
        "connect generation {} as rank {}: gpu_worlds of rank {} '{}' is {}, and of this rank {}; "
        "set the same value at all members",
        world_.generation, world_.rank, rank, id, static_cast<uint32_t>(cards[rank].worlds),
        static_cast<uint32_t>(worlds));
  }
  return {};
}

Result<std::vector<nccl::UniqueId>> NcclConnector::exchange_ids(const Library& library,
                                                                Time deadline) {
  const int ids = nccl_ids(world_.size(), library->functions());
  Told told;
  Status mine;
  if (makes_nccl_id(world_.rank, world_.size(), ids)) {
    const nccl::Code code = (*library)->get_unique_id(&told.id);
    told.is_made = code == nccl::Code::kSuccess ? 1 : 0;
    if (told.is_made == 0) {
      mine = nccl_error("make a unique id", code, (*library)->get_error_string(code), "");
    }
  }
  FFDL_ASSIGN_OR_RETURN(const std::vector<Told> all, gather_from_all(host_, told, deadline));
  FFDL_RETURN_IF_ERROR(Status(mine));
  std::vector<nccl::UniqueId> made;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!makes_nccl_id(static_cast<int>(rank), world_.size(), ids)) continue;
    if (all[rank].is_made == 0) return lacks(rank);
    made.push_back(all[rank].id);
  }
  return made;
}

NcclLink::Made NcclConnector::connect(const Library& library, Time deadline) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<nccl::UniqueId> ids, exchange_ids(library, deadline));
  return named(NcclLink::connect(library, ids, world_.rank, world_.size(),
                                 pause_until_("connect over NCCL", deadline)));
}

// Adds the names of two members that have one GPU. NCCL knows only their ranks.
NcclLink::Made NcclConnector::named(NcclLink::Made made) const {
  if (made.ok()) return made;
  const auto ranks = ranks_on_one_gpu(made.status().message());
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < world_.size(); };
  if (!ranks || !is_rank(ranks->first) || !is_rank(ranks->second)) return made;
  const auto id = [&](int rank) -> const std::string& {
    return world_.members[static_cast<size_t>(rank)].id;
  };
  return Status(made.status())
      .with_context(fmt::format("connect generation {}: '{}' and '{}' use the same GPU",
                                world_.generation, id(ranks->first), id(ranks->second)));
}

NcclLink::Made NcclConnector::derive(const Library& library, const NcclPast& mine, NcclLink* before,
                                     Time deadline) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<NcclPast> pasts, gather_from_all(host_, mine, deadline));
  NcclPlan plan = plan_nccl_world(pasts);
  if (plan.way == NcclPlan::Way::kFresh) {
    if (world_.rank == 0) {
      base::log_info("generation {}: all GPUs get new connections, because {}", world_.generation,
                     plan.reason);
    }
    return connect(library, deadline);
  }
  const bool grows = plan.way == NcclPlan::Way::kGrow;
  NcclLink::Made made = grows ? grow(library, before, deadline)
                              : before->shrink(std::move(plan.excluded), plan.follows_failure,
                                               pause_deriving(deadline));
  FFDL_ASSIGN_OR_RETURN(const std::vector<int8_t> outcomes,
                        gather_from_all(host_, static_cast<int8_t>(made.ok()), deadline));
  if (!std::ranges::count(outcomes, int8_t{0})) {
    if (world_.rank == 0) {
      base::log_info("generation {}: GPUs were {} the previous world", world_.generation,
                     grows ? "added to those of" : "taken out of");
    }
    return made;
  }
  if (!made.ok()) {
    base::log_warning("generation {} as rank {}: {}; all ranks make new connections",
                      world_.generation, world_.rank, made.status().message());
  } else {
    std::move(made).value()->abort();
  }
  return connect(library, deadline);
}

// Makes the id at the first rank of the world before, which is the first one here, too.
NcclLink::Made NcclConnector::grow(const Library& library, NcclLink* before, Time deadline) {
  Told told;
  Status mine;
  if (world_.rank == 0) {
    const Result<nccl::UniqueId> id = before->get_grow_id();
    mine = id.status();
    if (id.ok()) told = {1, *id};
  }
  FFDL_RETURN_IF_ERROR(host_.broadcast({&told, sizeof told, DType::kInt8}, 0, deadline));
  FFDL_RETURN_IF_ERROR(std::move(mine));
  if (told.is_made == 0) {
    return make_error(StatusCode::kUnavailable, "grow a world of NCCL: rank 0 has made no id");
  }
  const Pause pause = pause_deriving(deadline);
  if (before == nullptr) {
    return NcclLink::join(library, told.id, world_.rank, world_.size(), pause);
  }
  return before->grow(world_.rank == 0 ? &told.id : nullptr, world_.size(), pause);
}

Pause NcclConnector::pause_deriving(Time deadline) const {
  return pause_until_("derive a world of NCCL", std::min<Time>(deadline, deadline_in(derive_max_)));
}

}  // namespace ffdl::comm
