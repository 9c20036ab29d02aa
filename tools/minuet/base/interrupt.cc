#include "tools/minuet/base/interrupt.h"

#include <signal.h>

#include <atomic>

#include "tools/minuet/base/output_file.h"

namespace minuet::tool {
namespace {

std::atomic<int> interrupts{0};

void on_interrupt(int number) {
  if (interrupts++ == 0) return;
  remove_unfinished_files();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

void watch_interrupts() {
  ::signal(SIGINT, on_interrupt);
  ::signal(SIGTERM, on_interrupt);
}

bool is_interrupted() { return interrupts > 0; }

}  // namespace minuet::tool
