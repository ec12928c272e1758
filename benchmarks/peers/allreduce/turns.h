#pragma once

// The part that the peers in C and C++ share: taking turns. A peer calls turns_open first and
// turns_join when it knows its rank. It then connects its ranks, and calls turns_serve with the
// function that does one all_reduce. Any failure ends the process; the launcher then ends the
// others.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kRanksMax = 64, kLineMax = 64, kWarmUps = 2, kBytesMax = 100 << 20 };

typedef struct {
  int rank;
  int ranks;
  const char* folder;
  FILE* answers;             // the original standard output
  FILE* commands;            // rank 0: standard input; the others: their FIFO
  int followers[kRanksMax];  // rank 0: the FIFO of each other rank
  float* values;
} Turns;

// Sums `count` values in place over all ranks.
typedef void (*AllReduce)(float* values, size_t count, void* context);

static void turns_fail(const char* doing, const char* which) {
  fprintf(stderr, "%s '%s': ", doing, which);
  perror(NULL);
  exit(1);
}

// Redirects standard output to standard error: libraries print warnings there, which must not be
// taken for answers.
static void turns_open(Turns* turns) {
  const int answers = dup(STDOUT_FILENO);
  turns->answers = answers < 0 ? NULL : fdopen(answers, "w");
  if (turns->answers == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    turns_fail("keep", "standard output");
  }
}

static void turns_fifo_name(const Turns* turns, int rank, char* name, size_t size) {
  snprintf(name, size, "%s/%d", turns->folder, rank);
}

// Creates the FIFO of this rank and the memory of all turns. Called before the ranks meet.
static void turns_join(Turns* turns, int rank, int ranks, const char* folder) {
  char name[4096];
  turns->rank = rank;
  turns->ranks = ranks;
  turns->folder = folder;
  if (ranks > kRanksMax) turns_fail("start", "more ranks than 64");
  turns->values = (float*)aligned_alloc(64, kBytesMax);
  if (turns->values == NULL) turns_fail("allocate", "the values");
  memset(turns->values, 1, kBytesMax);
  turns_fifo_name(turns, rank, name, sizeof(name));
  if (rank != 0 && mkfifo(name, 0600) != 0) turns_fail("make", name);
}

// Opens the FIFOs, which waits for the other end, and then removes their names, so that no name
// stays behind however the group ends. Called after the ranks met.
static void turns_connect(Turns* turns) {
  char name[4096];
  if (turns->rank != 0) {
    turns_fifo_name(turns, turns->rank, name, sizeof(name));
    turns->commands = fopen(name, "r");
    if (turns->commands == NULL) turns_fail("open", name);
    return;
  }
  turns->commands = stdin;
  for (int rank = 1; rank < turns->ranks; ++rank) {
    turns_fifo_name(turns, rank, name, sizeof(name));
    turns->followers[rank] = open(name, O_WRONLY | O_CLOEXEC);
    if (turns->followers[rank] < 0 || unlink(name) != 0) turns_fail("open", name);
  }
  if (rmdir(turns->folder) != 0) turns_fail("remove", turns->folder);
  fputs("ready\n", turns->answers);
  fflush(turns->answers);
}

static double turns_repeat(Turns* turns, long times, size_t count, AllReduce all_reduce,
                           void* context) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long i = 0; i < times; ++i) {
    for (size_t j = 0; j < count; ++j) turns->values[j] = (float)(turns->rank + 1);
    all_reduce(turns->values, count, context);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

static void turns_check(const Turns* turns, size_t count) {
  const float wanted = (float)(turns->ranks * (turns->ranks + 1) / 2);
  if (turns->values[0] == wanted && turns->values[count - 1] == wanted) return;
  fprintf(stderr, "check %zu values: first %g, last %g, not %g\n", count, (double)turns->values[0],
          (double)turns->values[count - 1], (double)wanted);
  exit(1);
}

// Serves "COUNT BYTES" lines until they end. Waits in read(2), so that a sleeping group costs
// nothing.
static void turns_serve(Turns* turns, AllReduce all_reduce, void* context) {
  char line[kLineMax];
  turns_connect(turns);
  while (fgets(line, sizeof(line), turns->commands) != NULL) {
    long times = 0;
    size_t bytes = 0;
    if (sscanf(line, "%ld %zu", &times, &bytes) != 2 || times < 1 || bytes < sizeof(float) ||
        bytes > kBytesMax || bytes % sizeof(float) != 0) {
      fprintf(stderr, "serve '%s': not COUNT BYTES with at most %d bytes\n", line, kBytesMax);
      exit(1);
    }
    for (int rank = 1; turns->rank == 0 && rank < turns->ranks; ++rank) {
      const ssize_t size = (ssize_t)strlen(line);
      if (write(turns->followers[rank], line, (size_t)size) != size) turns_fail("relay", line);
    }
    const size_t count = bytes / sizeof(float);
    turns_repeat(turns, kWarmUps, count, all_reduce, context);
    const double seconds = turns_repeat(turns, times, count, all_reduce, context);
    if (turns->rank != 0) continue;
    turns_check(turns, count);
    fprintf(turns->answers, "%.9f\n", seconds);
    fflush(turns->answers);
  }
  for (int rank = 1; turns->rank == 0 && rank < turns->ranks; ++rank) close(turns->followers[rank]);
  free(turns->values);
}
