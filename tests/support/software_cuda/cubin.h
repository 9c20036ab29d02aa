// A cubin of the software device: an ELF file that the library's checks take for one of CUDA, around a host
// library with the kernel in it. What the software NVRTC writes, the software driver loads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace minuet::software_cuda {

/// The one function that a kernel's host library exports: one thread's run of the kernel, `params` its
/// argument.
inline constexpr const char* kEntry = "software_cuda_kernel";
using Entry = void (*)(const void* params);

struct Cubin {
  std::string kernel;   // lowered name
  std::string library;  // bytes of the host's shared library
  int sm = 90;
  int max_threads = 0;  // of a block: what the kernel's launch bound says
  int params_bytes = 0;
};

/// An ELF file of machine 190 with .text.<kernel> (the library's bytes) and .nv.info.<kernel>, as
/// codegen/base/elf.h reads.
std::string wrap(const Cubin& cubin);
/// The same as text, what nvrtcGetPTX gives: the target ("sm_90a") and the entry's name as PTX has them, and
/// in a comment the hex digits of wrap().
std::string wrap_as_ptx(const Cubin& cubin, const std::string& target);
/// Of an image whose length its header tells, as the driver gets it, or of such a text, which ends in a NUL;
/// none where it is no whole cubin of ours, or one whose ELF header (ABI, version of the ABI, kind of file)
/// is not what wrap() writes. A checksum behind the header finds every other damaged byte.
std::optional<Cubin> unwrap(const void* image);

}  // namespace minuet::software_cuda
