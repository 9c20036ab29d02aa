// The entry point that libFuzzer calls, the same for all targets.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  minuet::fuzz_one({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
