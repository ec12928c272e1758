#pragma once

#include <type_traits>

#include "base/array_work.h"
#include "base/element_pack.h"
#include "base/half_arithmetic.h"

// Computes the part of a piece of ArrayWork that belongs to thread `thread` of `threads`. T is the
// type of the elements. The CUDA kernels consist of these functions.
namespace ffdl::base {

// The type in which elements of type T are computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
FFDL_HOST_DEVICE T narrowed(Wide<T> value) {
  T element;
  narrow(value, element);
  return element;
}

// Calls `pack` with the first element of each of the thread's packs, and `one` with each element
// after the last pack that is the thread's.
template <class Pack, class One>
FFDL_HOST_DEVICE void for_each_of_thread(uint64_t count, uint64_t thread, uint64_t threads,
                                         const Pack& pack, const One& one) {
  const uint64_t packs = count / kPackElements;
  for (uint64_t i = thread; i < packs; i += threads) pack(i * kPackElements);
  for (uint64_t i = packs * kPackElements + thread; i < count; i += threads) one(i);
}

template <class T>
FFDL_HOST_DEVICE void scale_thread(const ScaleArray& work, uint64_t thread, uint64_t threads) {
  auto* const array = static_cast<std::byte*>(work.array.data);
  const auto by = static_cast<Wide<T>>(work.factor);
  const bool is_zero = work.factor == 0;
  const auto scaled = [=](const T& value) {
    return is_zero ? narrowed<T>(0) : narrowed<T>(widened(value) * by);
  };
  for_each_of_thread(
      work.array.count, thread, threads,
      [=](uint64_t first) {
        std::byte* const place = array + first * sizeof(T);
        auto pack = load_elements<T>(place);
        FFDL_UNROLL
        for (uint64_t i = 0; i < kPackElements; ++i) pack.at[i] = scaled(pack.at[i]);
        store_elements(pack, place);
      },
      [=](uint64_t i) {
        std::byte* const place = array + i * sizeof(T);
        store_element(scaled(load_element<T>(place)), place);
      });
}

template <class T>
FFDL_HOST_DEVICE void add_thread(const AddArray& work, uint64_t thread, uint64_t threads) {
  using W = Wide<T>;
  const auto* const values = static_cast<const std::byte*>(work.values.data);
  auto* const sum = static_cast<std::byte*>(work.sum);
  const auto by = static_cast<W>(work.weight);
  const bool is_first = work.is_first;
  for_each_of_thread(
      work.values.count, thread, threads,
      [=](uint64_t first) {
        const auto added = load_elements<T>(values + first * sizeof(T));
        std::byte* const place = sum + first * sizeof(W);
        ElementPack<W> sums{};
        if (!is_first) sums = load_elements<W>(place);
        FFDL_UNROLL
        for (uint64_t i = 0; i < kPackElements; ++i) {
          const W value = widened(added.at[i]);
          sums.at[i] = is_first ? value : sums.at[i] + by * value;
        }
        store_elements(sums, place);
      },
      [=](uint64_t i) {
        const W value = widened(load_element<T>(values + i * sizeof(T)));
        std::byte* const place = sum + i * sizeof(W);
        store_element(is_first ? value : load_element<W>(place) + by * value, place);
      });
}

template <class T>
FFDL_HOST_DEVICE void divide_thread(const DivideArray& work, uint64_t thread, uint64_t threads) {
  using W = Wide<T>;
  const auto* const sum = static_cast<const std::byte*>(work.sum);
  auto* const out = static_cast<std::byte*>(work.out.data);
  const auto by = static_cast<W>(work.divisor);
  for_each_of_thread(
      work.out.count, thread, threads,
      [=](uint64_t first) {
        const auto sums = load_elements<W>(sum + first * sizeof(W));
        ElementPack<T> means;
        FFDL_UNROLL
        for (uint64_t i = 0; i < kPackElements; ++i) means.at[i] = narrowed<T>(sums.at[i] / by);
        store_elements(means, out + first * sizeof(T));
      },
      [=](uint64_t i) {
        store_element(narrowed<T>(load_element<W>(sum + i * sizeof(W)) / by), out + i * sizeof(T));
      });
}

// Gives each thread whole lanes of blocks. Threads of neighbouring lanes read neighbouring
// elements.
template <class T>
FFDL_HOST_DEVICE void square_thread(const SquareArray& work, uint64_t thread, uint64_t threads) {
  const auto* const values = static_cast<const std::byte*>(work.values.data);
  const auto* const subtracted = static_cast<const std::byte*>(work.subtracted);
  const uint64_t blocks = norm_blocks(work.values.count);
  for (uint64_t lane = thread; lane < work.picks * kNormLanes; lane += threads) {
    const uint64_t pick = work.first_pick + lane / kNormLanes;
    const uint64_t begin = pick_block(blocks, work.stride, work.round, pick).block * kNormBlock;
    const uint64_t left = work.values.count - begin;
    const uint64_t end = begin + (left < kNormBlock ? left : kNormBlock);
    double sum = 0;
    for (uint64_t i = begin + lane % kNormLanes; i < end; i += kNormLanes) {
      Wide<T> value = widened(load_element<T>(values + i * sizeof(T)));
      if (subtracted != nullptr) value -= widened(load_element<T>(subtracted + i * sizeof(T)));
      const auto wide = static_cast<double>(value);
      sum += wide * wide;
    }
    work.lanes[lane] = sum;
  }
}

}  // namespace ffdl::base
