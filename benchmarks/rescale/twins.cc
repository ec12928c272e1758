#include "benchmarks/rescale/twins.h"

namespace ffdl::bench {

Result<std::unique_ptr<Twins>> Twins::start(const Shape& shape, int ranks) {
  FFDL_ASSIGN_OR_RETURN(auto store, StoreFolder::start());
  auto twins = std::unique_ptr<Twins>(new Twins(std::move(store)));
  for (int rank = 0; rank < ranks; ++rank) {
    FFDL_ASSIGN_OR_RETURN(
        auto process, Resident::start_self({"--role", "twin", twins->store_->path(),
                                            std::to_string(rank), std::to_string(shape.layers),
                                            std::to_string(shape.rows), std::to_string(ranks)}));
    twins->ranks_.push_back(std::move(process));
  }
  for (const auto& rank : twins->ranks_) FFDL_RETURN_IF_ERROR(rank->ask("").status());
  return twins;
}

Twins::~Twins() {
  for (const auto& rank : ranks_) rank->kill_now();
}

Result<double> Twins::train(const std::string& how) {
  for (const auto& rank : ranks_) FFDL_RETURN_IF_ERROR(rank->tell(how));
  double seconds = 0;
  for (const auto& rank : ranks_) {
    FFDL_ASSIGN_OR_RETURN(const double of_it, rank->ask_number(""));
    if (rank == ranks_[0]) seconds = of_it;
  }
  return seconds;
}

}  // namespace ffdl::bench
