// NVTX ranges, which name calls and layers in Nsight Systems, in the domain "minuet". Ranges are recorded
// only if the environment variable MINUET_NVTX was 1 at first use. Thread-safe.
#pragma once

#include <cstdint>

namespace minuet {

/// Returns true if this build includes NVTX. Otherwise all ranges do nothing.
bool has_nvtx();
/// Returns true if MINUET_NVTX is 1.
bool wants_nvtx();

/// A range of the current thread, such as a call or a layer. Ranges nest.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const bool is_open_;
};

/// Consecutive ranges, at most one open at a time. A range may stay open after a failure; the next begin() or
/// the destructor ends it.
class NvtxSteps {
 public:
  NvtxSteps() = default;
  NvtxSteps(const NvtxSteps&) = delete;
  NvtxSteps& operator=(const NvtxSteps&) = delete;
  ~NvtxSteps() { end(); }
  void begin(const char* name);
  void end();

 private:
  std::uint64_t open_ = 0;  // 0: no range is open
};

}  // namespace minuet
