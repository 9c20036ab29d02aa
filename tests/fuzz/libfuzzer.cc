// The entry points that libFuzzer calls. Which reader is meant is in the argument --target=NAME: one program
// for all, since each would be linked, and the most of it compiled, anew.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"

namespace {

const minuet::FuzzTarget* chosen = nullptr;

}  // namespace

// libFuzzer passes over what starts with two dashes.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  for (int i = 1; i < *count; ++i) {
    llvm::StringRef name = (*arguments)[i];
    if (!name.consume_front("--target=")) continue;
    for (const minuet::FuzzTarget& target : minuet::kFuzzTargets) {
      if (name == target.name) chosen = &target;
    }
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "--target=NAME is missing, and NAME is one of:");
  for (const minuet::FuzzTarget& target : minuet::kFuzzTargets) std::fprintf(stderr, " %s", target.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
