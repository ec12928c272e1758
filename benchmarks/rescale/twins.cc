#include "benchmarks/rescale/twins.h"

namespace ffdl::bench {

Result<std::unique_ptr<Twins>> Twins::start(const Shape& shape) {
  FFDL_ASSIGN_OR_RETURN(auto store, StoreFolder::start());
  auto twins = std::unique_ptr<Twins>(new Twins(std::move(store)));
  for (int rank = 0; rank < 2; ++rank) {
    FFDL_ASSIGN_OR_RETURN(
        twins->ranks_[rank],
        Resident::start_self({"--role", "twin", twins->store_->path(), std::to_string(rank),
                              std::to_string(shape.layers), std::to_string(shape.rows)}));
  }
  for (const auto& rank : twins->ranks_) FFDL_RETURN_IF_ERROR(rank->ask("").status());
  return twins;
}

Twins::~Twins() {
  for (const auto& rank : ranks_) {
    if (rank) rank->kill_now();
  }
}

Result<double> Twins::train(const std::string& how) {
  for (const auto& rank : ranks_) FFDL_RETURN_IF_ERROR(rank->tell(how));
  FFDL_ASSIGN_OR_RETURN(const double seconds, ranks_[0]->ask_number(""));
  FFDL_RETURN_IF_ERROR(ranks_[1]->ask("").status());
  return seconds;
}

}  // namespace ffdl::bench
