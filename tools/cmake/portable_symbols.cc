// Defines symbols that would otherwise come from libraries, or versions of them, which a host may lack. A
// Python wheel for manylinux_2_34 may need neither libtinfo nor a libstdc++ newer than GCC 11's
// (check_library.py looks).

#include <pthread.h>
#include <sys/random.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

// LLVM's Support asks terminfo whether a terminal has colours. Nothing here writes colours, so that the
// answer is no and libtinfo is not needed.
extern "C" {
int setupterm(const char* /*terminal*/, int /*file*/, int* error) {
  if (error != nullptr) *error = 0;
  return -1;  // ERR: there is no description of this terminal.
}
void* set_curterm(void* /*terminal*/) { return nullptr; }
int del_curterm(void* /*terminal*/) { return 0; }
int tigetnum(const char* /*capability*/) { return -1; }
}

// The following two are known to the linker by the names in asm(), because headers may declare those names in
// other ways.

// LLVM draws the names of unique files with this function, which came with glibc 2.36.
std::uint32_t draw_number() asm("arc4random");
std::uint32_t draw_number() {
  std::uint32_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return number;
}

#if _GLIBCXX_RELEASE >= 12
// std::condition_variable::wait. GCC 12 gave it a new version, GLIBCXX_3.4.30, because a thread may be
// cancelled in it since then.
void wait_on_condition(std::condition_variable* condition, std::unique_lock<std::mutex>* lock) asm(
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void wait_on_condition(std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  pthread_cond_wait(condition->native_handle(), lock->mutex()->native_handle());
}
#endif
