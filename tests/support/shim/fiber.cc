#include "tests/support/shim/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "tests/support/shim/sanitizers.h"

#if defined(__x86_64__)
// swapcontext saves the signal mask too: two system calls a switch, fifty times the cost of this.
extern "C" void minuet_shim_switch(void** from, void* to);
asm(R"(
.text
.type minuet_shim_switch, @function
minuet_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size minuet_shim_switch, .-minuet_shim_switch
)");
#else
#include <ucontext.h>
#endif

namespace minuet::shim {
namespace {

constexpr std::size_t kPage = 64 * 1024;
constexpr std::size_t kStackBytes = 256 * 1024;  // touched only as far as a kernel goes

/// Where a new stack begins below its end. Were it the same for all, their first lines would lie in the same
/// few sets of the caches, and each switch would miss.
std::size_t next_colour() {
  constexpr std::size_t kStep = 704, kColours = 64;
  static std::size_t count = 0;
  return count++ % kColours * kStep;
}

/// The OS thread's side of a switch.
struct Host {
  void* context = nullptr;
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* tsan = nullptr;
  bool leaves = false;  // it is who switches to a fiber
};
Host host;
void (*entry_of_new)() = nullptr;

#if defined(__x86_64__)
void* make_context(char* stack, void (*entry)()) {
  // What minuet_shim_switch pops: six registers, then where to return to; a function starts with the stack 8
  // bytes off a multiple of 16, and where it would return to is nowhere.
  auto** top = reinterpret_cast<void**>(stack + kStackBytes - next_colour()) - 8;
  for (int i = 0; i < 8; ++i) top[i] = nullptr;
  top[6] = reinterpret_cast<void*>(entry);
  return top;
}
void switch_context(void** from, void* to) { minuet_shim_switch(from, to); }
void drop_context(void*) {}
#else
void* make_context(char* stack, void (*entry)()) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = kStackBytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
void switch_context(void** from, void* to) {
  if (*from == nullptr) *from = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(to));
}
void drop_context(void* context) { delete static_cast<ucontext_t*>(context); }
#endif

void after_switch_to_fiber(void* fake_stack) {
#ifdef MINUET_SHIM_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
  if (host.leaves) host.bottom = bottom, host.bytes = bytes;
  host.leaves = false;
#else
  static_cast<void>(fake_stack);
#endif
}

void first_run() {
  after_switch_to_fiber(nullptr);
  entry_of_new();
}

}  // namespace

Fiber::Fiber(void (*entry)()) {
  void* memory = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kPage, PROT_NONE);
  stack_ = static_cast<char*>(memory) + kPage;
#ifdef MINUET_SHIM_ASAN
  __asan_unpoison_memory_region(stack_, kStackBytes);  // of a stack that was here before
#endif
#ifdef MINUET_SHIM_TSAN
  tsan_ = __tsan_create_fiber(0);
#endif
  entry_of_new = entry;
  context_ = make_context(stack_, first_run);
}

Fiber::~Fiber() {
#ifdef MINUET_SHIM_ASAN
  ending_ = true;
  if (started_) resume();  // to give its fake stack back
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
#ifdef MINUET_SHIM_TSAN
  __tsan_destroy_fiber(tsan_);
#endif
  drop_context(context_);
  munmap(stack_ - kPage, kPage + kStackBytes);
}

void Fiber::resume() {
  started_ = true;
#ifdef MINUET_SHIM_ASAN
  host.leaves = true;
  __sanitizer_start_switch_fiber(&host.fake_stack, stack_, kStackBytes);
#endif
#ifdef MINUET_SHIM_TSAN
  host.tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_, 0);
#endif
  switch_context(&host.context, context_);
#ifdef MINUET_SHIM_ASAN
  __sanitizer_finish_switch_fiber(host.fake_stack, nullptr, nullptr);
#endif
}

void Fiber::suspend(Fiber* next) {
#ifdef MINUET_SHIM_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, next ? next->stack_ : host.bottom,
                                 next ? kStackBytes : host.bytes);
#endif
#ifdef MINUET_SHIM_TSAN
  __tsan_switch_to_fiber(next ? next->tsan_ : host.tsan, 0);
#endif
  switch_context(&context_, next ? next->context_ : host.context);
  after_switch_to_fiber(fake_stack_);
#ifdef MINUET_SHIM_ASAN
  if (ending_) {
    __sanitizer_start_switch_fiber(nullptr, host.bottom, host.bytes);
    switch_context(&context_, host.context);
  }
#endif
}

}  // namespace minuet::shim
