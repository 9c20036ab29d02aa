// NVRTC's functions and one of its programs. The one file that reads nvrtc.h, and only its types:
// every function is looked up in the open library.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "codegen/diagnostics.h"
#include "codegen/embed/header_blob.h"
#include "codegen/nvrtc_library.h"

namespace minuet {

/// The functions of an open libnvrtc.
struct NvrtcApi {
#define MINUET_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                 \
  X(nvrtcGetErrorString)          \
  X(nvrtcGetNumSupportedArchs)    \
  X(nvrtcGetSupportedArchs)       \
  X(nvrtcCreateProgram)           \
  X(nvrtcDestroyProgram)          \
  X(nvrtcAddNameExpression)       \
  X(nvrtcCompileProgram)          \
  X(nvrtcGetProgramLogSize)       \
  X(nvrtcGetProgramLog)           \
  X(nvrtcGetLoweredName) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetPTXSize) X(nvrtcGetPTX)
/// Null where the library is too old to have them: then no heap grows.
#define MINUET_OPTIONAL_NVRTC_FUNCTIONS(X) \
  X(nvrtcGetPCHCreateStatus) X(nvrtcGetPCHHeapSizeRequired) X(nvrtcGetPCHHeapSize) X(nvrtcSetPCHHeapSize)
#define MINUET_DECLARE(name) decltype(&::name) name = nullptr;
  MINUET_NVRTC_FUNCTIONS(MINUET_DECLARE)
  MINUET_OPTIONAL_NVRTC_FUNCTIONS(MINUET_DECLARE)
#undef MINUET_DECLARE

  llvm::Error load(const NvrtcLibrary& library);
};

/// One nvrtcProgram, for one compile.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const NvrtcApi& api) : api_(api) {}
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  ~NvrtcProgram();

  nvrtcResult create(const KernelSource& source, const std::vector<Header>& headers);
  nvrtcResult compile(const KernelSource& source, const std::vector<std::string>& options);
  /// After a compile with --pch: what became of it. Where NVRTC's heap for such headers was too small,
  /// it is made larger for the next compile.
  PchUse pch_use() const;

  std::string log() const;
  std::string cubin() const;
  std::string ptx() const;
  std::string lowered_name(const KernelSource& source) const;

 private:
  template <class SizeOf, class Get>
  std::string read(SizeOf size_of, Get get, bool terminated) const;

  const NvrtcApi& api_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace minuet
