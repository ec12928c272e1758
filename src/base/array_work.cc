#include "base/array_work.h"

#include "base/errors.h"
#include "base/half_kernels.h"

namespace ffdl::base {
namespace {

Status check_array(std::string_view doing, const Buffer& array) {
  if (!is_floating(array.dtype)) {
    return invalid_argument("{} on the device: an array of {}; give a floating point type", doing,
                            to_string(array.dtype));
  }
  if (array.data != nullptr || array.count == 0) return {};
  return invalid_argument("{} on the device: an array of {} elements is null; give its memory",
                          doing, array.count);
}

Status check_sum(std::string_view doing, const void* sum, uint64_t count) {
  if (sum != nullptr || count == 0) return {};
  return invalid_argument("{} on the device: the sum of {} elements is null; give its memory",
                          doing, count);
}

Status check(const ScaleArray& work) { return check_array("scale", work.array); }

Status check(const AddArray& work) {
  FFDL_RETURN_IF_ERROR(check_array("add", work.values));
  return check_sum("add", work.sum, work.values.count);
}

Status check(const DivideArray& work) {
  FFDL_RETURN_IF_ERROR(check_array("divide", work.out));
  return check_sum("divide", work.sum, work.out.count);
}

Status check(const SquareArray& work) {
  FFDL_RETURN_IF_ERROR(check_array("take squares", work.values));
  if (work.stride == 0) {
    return invalid_argument("take squares on the device: one block in 0; give 1 to read all");
  }
  const uint64_t blocks = norm_blocks(work.values.count);
  const uint64_t there = norm_picks(blocks, work.stride);
  if (work.first_pick > there || work.picks > there - work.first_pick) {
    return invalid_argument(
        "take squares on the device: picks {} to {} of {}; an array of {} elements has {} blocks",
        work.first_pick, work.first_pick + work.picks, there, work.values.count, blocks);
  }
  return check_sum("take squares", work.lanes, work.picks);
}

}  // namespace

Status check_array_work(const ArrayWork& work) {
  return std::visit([](const auto& one) { return check(one); }, work);
}

}  // namespace ffdl::base
