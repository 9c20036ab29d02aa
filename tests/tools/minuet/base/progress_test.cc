#include "tools/minuet/base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace minuet::tool {
namespace {

using testing::HasSubstr;

void say_end() { ASSERT_EQ(::write(STDERR_FILENO, "end", 3), 3); }

/// stderr as a terminal that the test reads from.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)), saved_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    EXPECT_GE(slave, 0);
    ::dup2(slave, STDERR_FILENO);
    ::close(slave);
  }
  ~Terminal() {
    std::fflush(stderr);
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Waits until the screen's text has `words`, or for a minute.
  std::string read_until(const std::string& words) {
    while (text_.find(words) == std::string::npos) {
      pollfd ready{master_, POLLIN, 0};
      char buffer[256];
      if (::poll(&ready, 1, 60000) <= 0) break;
      const ssize_t count = ::read(master_, buffer, sizeof(buffer));
      if (count <= 0) break;
      text_.append(buffer, static_cast<size_t>(count));
    }
    return text_;
  }

 private:
  const int master_, saved_;
  std::string text_;
};

TEST(Progress, SaysOnATerminalWhatIsBeingWaitedFor) {
  Terminal terminal;
  {
    Progress progress("compiling kernels");
    EXPECT_THAT(terminal.read_until(" s"), HasSubstr("minuet: compiling kernels, 2 s"));
    progress.say("the first inference");
    EXPECT_THAT(terminal.read_until("inference"), HasSubstr("\r\x1b[Kminuet: the first inference"));
  }
  std::fflush(stderr);
  say_end();
  EXPECT_THAT(terminal.read_until("end"), testing::EndsWith("\r\x1b[Kend"));  // the line was wiped
}

TEST(Progress, CountsSteps) {
  Terminal terminal;
  Progress progress("warm inferences");
  progress.step(0, 50);
  progress.step(20, 40);  // goes on, though the total has moved
  EXPECT_THAT(terminal.read_until(" left"), HasSubstr(" s [##########----------] 20/40, "));
  progress.say("something else");
  EXPECT_THAT(terminal.read_until("else, 3 s"), testing::EndsWith("\r\x1b[Kminuet: something else, 3 s"));
}

TEST(Progress, SaysWhenAllOfItEnds) {
  Terminal terminal;
  Progress progress("measuring");
  progress.ends_within(1e6);
  EXPECT_THAT(terminal.read_until(" more"), HasSubstr("minuet: measuring, 2 s, at most 99999"));
}

TEST(Progress, TellsRateAndTimeLeft) {
  EXPECT_EQ(step_text(0, 0, 4, 0, 1), "[--------------------] 0/4");
  EXPECT_EQ(step_text(0, 1, 4, 10, 0), "[#####---------------] 1/4, 10.0 s each, 30 s left");
  EXPECT_EQ(step_text(0, 1, 4, 10, 7), "[#####---------------] 1/4, 10.0 s each, 23 s left");
  EXPECT_EQ(step_text(0, 1, 4, 10, 99), "[#####---------------] 1/4, 10.0 s each, 0 s left");
  EXPECT_EQ(step_text(2, 3, 5, 0.5, 0), "[############--------] 3/5, 2.0 a second, 1 s left");
  EXPECT_EQ(step_text(3, 3, 5, 9, 0), "[############--------] 3/5");
  EXPECT_EQ(step_text(0, 4, 4, 2, 0), "[####################] 4/4, 2.0 a second, 0 s left");
}

TEST(Progress, SaysNothingOfWhatIsQuickOrElsewhere) {
  Terminal terminal;
  { const Progress quick("nothing"); }
  say_end();
  EXPECT_EQ(terminal.read_until("end"), "end");
}

}  // namespace
}  // namespace minuet::tool
