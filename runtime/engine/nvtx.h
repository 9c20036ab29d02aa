// NVTX ranges, by which Nsight Systems names what it shows: of the domain "minuet", and none unless
// MINUET_NVTX was 1 when the first one was to be made. Thread-safe.
#pragma once

#include <cstdint>

namespace minuet {

/// Whether this build has NVTX's header; without it ranges are nothing.
bool has_nvtx();
/// Whether MINUET_NVTX asks for ranges.
bool wants_nvtx();

/// A range of this thread, within those that are open there: a call, a layer.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const bool is_open_;
};

/// Steps that follow one another, one open at a time; a failure between them closes none too many.
class NvtxSteps {
 public:
  NvtxSteps() = default;
  NvtxSteps(const NvtxSteps&) = delete;
  NvtxSteps& operator=(const NvtxSteps&) = delete;
  ~NvtxSteps() { end(); }
  void begin(const char* name);
  void end();

 private:
  std::uint64_t open_ = 0;  // 0: none
};

}  // namespace minuet
