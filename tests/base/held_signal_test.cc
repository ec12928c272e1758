#include "base/held_signal.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/low_limit.h"

namespace ffdl::base {
namespace {

volatile sig_atomic_t handled = 0;

void count_it(int /*signal*/) { handled = handled + 1; }

// Sets a handler of the program, and a file size limit of one byte.
class HeldSignalTest : public ::testing::Test {
 protected:
  HeldSignalTest() : before_(::signal(SIGXFSZ, count_it)), limit_(RLIMIT_FSIZE, 1) {
    handled = 0;
    EXPECT_EQ(::write(file_, "x", 1), 1);
  }
  ~HeldSignalTest() override {
    ::signal(SIGXFSZ, before_);
    ::close(file_);
  }
  // Writes beyond the limit, and returns errno; 0: it succeeded.
  int write() const { return ::write(file_, "x", 1) < 0 ? errno : 0; }

  void (*const before_)(int);
  const testing::LowLimit limit_;
  const int file_ = memfd_create("limited", MFD_CLOEXEC);
};

TEST_F(HeldSignalTest, AWriteSaysItAndTheProgramHearsOfItsOwnAlone) {
  {
    const HeldSignal held(SIGXFSZ);
    EXPECT_EQ(write(), EFBIG);
  }
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(write(), EFBIG);
  EXPECT_EQ(handled, 1) << "the program's own";
}

TEST_F(HeldSignalTest, ASignalThatTheProgramHoldsBackStaysItsOwn) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &only, nullptr);
  EXPECT_EQ(write(), EFBIG);
  {
    const HeldSignal held(SIGXFSZ);
    EXPECT_EQ(write(), EFBIG);
  }
  EXPECT_EQ(handled, 0) << "it is blocked still";
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  EXPECT_EQ(handled, 1);
}

TEST_F(HeldSignalTest, LeavesErrnoAsItIs) {
  errno = EDOM;
  {
    const HeldSignal held(SIGXFSZ);
  }
  EXPECT_EQ(errno, EDOM);
}

}  // namespace
}  // namespace ffdl::base
