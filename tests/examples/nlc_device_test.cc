#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "examples/gpu_against_host.h"
#include "nlc/device/batch_plan.h"
#include "nlc/device/libraries.h"
#include "nlc/device/row_threads.h"
#include "support/host_gpu.h"
#include "support/programs.h"
#include "support/temp_folder.h"

// Tests the GPU's classifier on a device in the host's memory, with the tests' libraries.
namespace nlc {
namespace {

using ffdl::StatusCode;
using ::testing::ElementsAre;

Libraries fake_libraries() {
  auto loaded = Libraries::load({ffdl::kFakeCudnn}, {ffdl::kFakeCudnn});
  EXPECT_OK(loaded);
  return std::move(loaded).value();
}

TEST(BatchPlanner, NamesEachRowOnceWithItsUses) {
  Gathered batch;
  batch.features.rows = {9, 4, 9, 7, 4, 9};
  batch.features.factors = {1, 2, 3, 4, 5, 6};
  batch.features.ends = {3, 3, 6};  // the second text has none
  batch.labels = {2, 0, 1};
  BatchPlanner planner(10);
  BatchPlan plan;
  for (int again = 0; again < 2; ++again) {  // keeps nothing of the mini-batch before
    planner.make(batch, plan);
    EXPECT_THAT(plan.rows, ElementsAre(9, 4, 7));
    EXPECT_THAT(plan.place, ElementsAre(0, 1, 0, 2, 1, 0));
    EXPECT_THAT(plan.factors, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(plan.text_ends, ElementsAre(3, 3, 6));
    EXPECT_THAT(plan.labels, ElementsAre(2, 0, 1));
    EXPECT_THAT(plan.row_ends, ElementsAre(3, 5, 6));
    EXPECT_THAT(plan.use_texts, ElementsAre(0, 0, 2, 0, 2, 2));
    EXPECT_THAT(plan.use_factors, ElementsAre(1, 3, 6, 2, 5, 4));
  }
  planner.make({}, plan);
  EXPECT_TRUE(plan.rows.empty() && plan.place.empty() && plan.row_ends.empty());
}

// Runs all threads of a launch, the last one first.
template <class Job>
void run_threads(const Job& job, uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) run_thread(job, thread, threads);
}

TEST(RowThreads, DoAllTheirWorkWithAnyNumberOfThreads) {
  const std::vector<uint32_t> ends{2, 2, 3};
  const std::vector<uint32_t> place{1, 0, 1};
  const std::vector<float> factors{2, 3, 5};
  std::vector<float> rows(2 * kWidth);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  for (const uint64_t threads : {1U, 2U, 64U, 67U, 1000U}) {
    std::vector<float> sums(3 * kTextWidth, -1);
    run_threads(SumRows{.rows = rows.data(),
                        .place = place.data(),
                        .factors = factors.data(),
                        .ends = ends.data(),
                        .texts = 3,
                        .sums = sums.data()},
                threads);
    for (int i = 0; i < kWidth; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(sums[at], 2 * rows[kWidth + at] + 3 * rows[at]);
      EXPECT_EQ(sums[kTextWidth + at], 0);
      EXPECT_EQ(sums[2 * kTextWidth + at], 5 * rows[kWidth + at]);
    }
    for (std::size_t text = 1; text <= 3; ++text) EXPECT_EQ(sums[text * kTextWidth - 1], 1);

    std::vector<float> gradient(2 * kWidth, -1);
    const std::vector<uint32_t> uses{1, 0, 2};  // the first row has none
    run_threads(SpreadRows{.text_gradients = sums.data(),
                           .ends = std::vector<uint32_t>{0, 3}.data(),
                           .texts = uses.data(),
                           .factors = factors.data(),
                           .rows = 2,
                           .gradient = gradient.data()},
                threads);
    for (std::size_t i = 0; i < kWidth; ++i) {
      EXPECT_EQ(gradient[i], 0);
      EXPECT_EQ(gradient[kWidth + i],
                2 * sums[kWidth + i] + 3 * sums[i] + 5 * sums[2 * kWidth + i]);
    }
  }
}

TEST(RowThreads, TakeTheLossAtTheLabel) {
  const std::vector<float> logs{-1, -2, -3, -4, -5, -6};
  const std::vector<uint32_t> labels{2, 0};
  for (const uint64_t threads : {1U, 5U, 100U}) {
    std::vector<float> losses(2, -1);
    std::vector<float> gradient(6, -1);
    run_threads(TakeLoss{.log_probabilities = logs.data(),
                         .label = labels.data(),
                         .texts = 2,
                         .labels = 3,
                         .losses = losses.data(),
                         .gradient = gradient.data()},
                threads);
    EXPECT_THAT(losses, ElementsAre(3, 4));
    EXPECT_THAT(gradient, ElementsAre(0, 0, -0.5F, -0.5F, 0, 0));
  }
}

TEST(GpuModel, GradientsAreThoseOfTheProcessor) {
  HostGpu gpu;
  expect_gradients_alike(gpu, fake_libraries());
}

TEST(GpuModel, StepsAreThoseOfTheProcessor) {
  HostGpu gpu;
  expect_steps_alike(gpu, fake_libraries());
}

TEST(GpuModel, WhatALibraryRefusesIsTold) {
  HostGpu gpu;
  auto model = GpuModel::create(gpu, fake_libraries(), {.labels = 3, .texts_max = 4});
  ASSERT_OK(model);
  EXPECT_FAILS((*model)->upload({}), StatusCode::kInternal, "the fake cuDNN refuses");
}

TEST(Libraries, AreLookedForInTheirFoldersAlone) {
  const LibraryRoots roots{.cublas = "/opt/blas", .cudnn = "/opt/dnn", .prefixes = {"/venv"}};
  EXPECT_THAT(cublas_places(roots),
              ElementsAre("/opt/blas/lib/libcublas.so.13", "/opt/blas/libcublas.so.13",
                          "/opt/blas/lib/libcublas.so.12", "/opt/blas/libcublas.so.12"));
  EXPECT_THAT(cudnn_places(roots),
              ElementsAre("/opt/dnn/lib/libcudnn_ops.so.9", "/opt/dnn/libcudnn_ops.so.9"));
}

TEST(Libraries, ElseByTheirNamesAndThenInPythonEnvironments) {
  const ffdl::TempFolder folder;
  const std::string packages = "/site-packages/nvidia/";
  const auto write = [&](const std::string& path) { return folder.write(path, "nothing"); };
  const auto newer = write("venv/lib/python3.12" + packages + "cudnn/lib/libcudnn_ops.so.9");
  const auto older = write("venv/lib/python3.11" + packages + "cudnn/lib/libcudnn_ops.so.9");
  const auto cu13 = write("conda/lib/python3.12" + packages + "cu13/lib/libcublas.so.13");
  const auto cu12 = write("venv/lib/python3.12" + packages + "cublas/lib/libcublas.so.12");
  write("venv/lib/node" + packages + "cudnn/lib/libcudnn_ops.so.9");
  const LibraryRoots roots{
      .prefixes = {folder.file("venv"), folder.file("conda"), folder.file("none")}};
  EXPECT_THAT(cudnn_places(roots), ElementsAre("libcudnn_ops.so.9", older, newer));
  EXPECT_THAT(cublas_places(roots), ElementsAre("libcublas.so.13", "libcublas.so.12", cu13, cu12));
}

TEST(Libraries, TheFirstThatLoadsIsTaken) {
  const ffdl::TempFolder folder;
  const std::string none = folder.write("libcudnn_ops.so.9", "nothing");
  auto loaded = Libraries::load({none, ffdl::kFakeCudnn}, {none, ffdl::kFakeCudnn, none});
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->versions(), "cuBLAS 13.1.1, cuDNN 9.14.0");
}

TEST(Libraries, OneThatIsMissingIsNamedWithAllPlaces) {
  const auto no_blas = Libraries::load({"/none/libcublas.so.13", "/nowhere/libcublas.so.12"}, {});
  EXPECT_FAILS(no_blas, StatusCode::kUnimplemented, "load cuBLAS: it was not found: /none/lib");
  EXPECT_FAILS(no_blas, StatusCode::kUnimplemented, "/nowhere/libcublas.so.12");
  EXPECT_FAILS(no_blas, StatusCode::kUnimplemented, "set CUBLAS_ROOT");
  const auto no_dnn = Libraries::load({ffdl::kFakeCudnn}, {"/none/libcudnn_ops.so.9"});
  EXPECT_FAILS(no_dnn, StatusCode::kUnimplemented, "load cuDNN: it was not found: /none/lib");
  EXPECT_FAILS(no_dnn, StatusCode::kUnimplemented, "set CUDNN_ROOT");
}

TEST(Libraries, OneThatCannotDoIsRefused) {
  EXPECT_FAILS(Libraries::load({ffdl::kFakeCudnnOld}, {}), StatusCode::kUnimplemented,
               "it is version 11.1.1, and 12 is the oldest");
  EXPECT_FAILS(Libraries::load({ffdl::kFakeCudnn}, {ffdl::kFakeCudnnOld}),
               StatusCode::kUnimplemented, "it is version 8.9.2, and 9 is the oldest");
  EXPECT_FAILS(Libraries::load({"libm.so.6"}, {}), StatusCode::kUnimplemented,
               "it has no cublasGetProperty");
  EXPECT_FAILS(Libraries::load({ffdl::kFakeCudnn}, {"libm.so.6"}), StatusCode::kUnimplemented,
               "it has no cudnnGetVersion");
}

}  // namespace
}  // namespace nlc
