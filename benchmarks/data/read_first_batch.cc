// read_first_batch FILE: a program that starts without state and reads its first batch of 256
// records of 256 B.
#include <cstdio>

#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_ledger.h"

namespace ffdl::bench {
namespace {

constexpr uint64_t kBytes = 256;
constexpr uint64_t kBatch = 256;

Status read_first_batch(const char* path) {
  FFDL_ASSIGN_OR_RETURN(const auto source, open_records({path}, {.record_bytes = kBytes}));
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger({.samples = source->samples(),
                                                                .partition_samples = 4096}));
  World world;
  world.members = {{"worker", 1}};
  ledger->participant()->world_changed(world);
  FFDL_ASSIGN_OR_RETURN(const auto pipeline, DataPipeline::create(*source, *ledger, {}));
  DataBatch batch;
  FFDL_RETURN_IF_ERROR(pipeline->next(batch, kBatch));
  unsigned sum = 0;  // over every byte
  for (const auto& sample : batch.samples) {
    for (const std::byte byte : sample) sum += std::to_integer<unsigned>(byte);
  }
  std::printf("ready %u\n", sum);
  std::fflush(stdout);
  return {};
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  const ffdl::Status status =
      argc == 2 ? ffdl::bench::read_first_batch(argv[1])
                : ffdl::Status(ffdl::StatusCode::kInvalidArgument, "read_first_batch FILE");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  while (status.ok() && std::getchar() != EOF) {  // until the harness sends no more requests
  }
  return status.ok() ? 0 : 1;
}
