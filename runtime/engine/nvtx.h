// Records NVTX ranges in the domain "minuet", which name calls and layers in Nsight Systems. Ranges are
// recorded only if the environment variable MINUET_NVTX was 1 at first use. Threads may record ranges at the
// same time.
#pragma once

#include <cstdint>

namespace minuet {

/// Returns true if this build includes NVTX. Otherwise all ranges do nothing.
bool has_nvtx();
/// Returns true if MINUET_NVTX was 1 at the first call.
bool wants_nvtx();

/// Records a range of the current thread, such as a call or a layer, until it is destroyed. Ranges may
/// contain each other.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const bool is_open_;
};

/// Records consecutive ranges, of which at most one is open at a time. A range may stay open after a failure;
/// the next begin() or the destructor ends it.
class NvtxSteps {
 public:
  NvtxSteps() = default;
  NvtxSteps(const NvtxSteps&) = delete;
  NvtxSteps& operator=(const NvtxSteps&) = delete;
  ~NvtxSteps() { end(); }
  void begin(const char* name);
  void end();

 private:
  std::uint64_t open_ = 0;  // Identifies the open range, or is 0 if no range is open.
};

}  // namespace minuet
