// The software NVRTC: libnvrtc.so.13 of the software CUDA device. Its cubins hold host code, compiled from
// the very source and headers that it is given. Thread-safe, as NVRTC is: a program belongs to one thread.
#include <nvrtc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "tests/support/software_cuda/cubin.h"
#include "tests/support/software_cuda/nvrtc_compile.h"

#define SOFTWARE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

using namespace minuet::software_cuda;

// The name is nvrtc.h's.
struct _nvrtcProgram {
  Unit unit;
  std::string kernel_name;  // lowered
  std::string log, cubin, ptx;
  bool compiled = false;
};

namespace {

constexpr int kArchs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};  // of NVRTC 13.0

struct Target {
  bool is_virtual = false;  // compute_90: PTX
  int sm = 0;               // 0: not known
  std::string name;         // "sm_90a"
};

Target parse_target(const std::string& arch) {
  Target target;
  target.is_virtual = arch.rfind("compute_", 0) == 0;
  if (!target.is_virtual && arch.rfind("sm_", 0) != 0) return target;
  const std::string number = arch.substr(arch.find('_') + 1);
  char* suffix = nullptr;
  const long sm = std::strtol(number.c_str(), &suffix, 10);
  const bool known = std::find(std::begin(kArchs), std::end(kArchs), sm) != std::end(kArchs);
  const std::string rest = suffix;
  if (!known || !(rest.empty() || (sm >= 90 && (rest == "a" || (rest == "f" && sm >= 100))))) return target;
  target.sm = static_cast<int>(sm);
  target.name = "sm_" + number;
  return target;
}

/// What of the options bears on a host's code; NVRTC's others are taken and do nothing.
Target read_options(Unit& unit, int count, const char* const* options) {
  Target target = parse_target("sm_75");  // NVRTC's default
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    for (const std::string name : {"--gpu-architecture", "-arch"}) {
      if (option == name && i + 1 < count) target = parse_target(options[i + 1]);
      if (option.rfind(name + "=", 0) == 0) target = parse_target(option.substr(name.size() + 1));
    }
    if (option.rfind("-D", 0) == 0) unit.defines.push_back(option);
    if (option.rfind("--define-macro=", 0) == 0) unit.defines.push_back("-D" + option.substr(15));
  }
  return target;
}

nvrtcResult compile(_nvrtcProgram& program, const Target& target) {
  const Built built = build_kernel(program.unit);
  program.log = built.log;
  if (built.library.empty()) return NVRTC_ERROR_COMPILATION;
  Cubin cubin;
  cubin.kernel = program.kernel_name = lowered_name(program.unit.kernel);
  cubin.library = built.library;
  cubin.sm = target.sm;
  cubin.max_threads = built.max_threads;
  cubin.params_bytes = built.params_bytes;
  if (target.is_virtual) {
    program.ptx = wrap_as_ptx(cubin, target.name);
  } else {
    program.cubin = wrap(cubin);
  }
  return NVRTC_SUCCESS;
}

nvrtcResult size_of(const std::string& bytes, std::size_t* size, bool terminated) {
  *size = bytes.size() + (terminated ? 1 : 0);
  return NVRTC_SUCCESS;
}

nvrtcResult copy_out(const std::string& bytes, char* out, bool terminated) {
  std::memcpy(out, bytes.c_str(), bytes.size() + (terminated ? 1 : 0));
  return NVRTC_SUCCESS;
}

}  // namespace

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case NVRTC_ERROR_INTERNAL_ERROR:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchs));
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  std::copy(std::begin(kArchs), std::end(kArchs), archs);
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char* name,
                                                    int count, const char* const* headers,
                                                    const char* const* names) {
  if (program == nullptr || text == nullptr || count < 0) return NVRTC_ERROR_INVALID_INPUT;
  auto* const created = new _nvrtcProgram;
  created->unit.name = name != nullptr ? name : "default_program";
  created->unit.text = text;
  for (int i = 0; i < count; ++i) created->unit.headers.emplace(names[i], headers[i]);
  *program = created;
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (program == nullptr || *program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  // One kernel a program, as Minuet compiles them.
  if (expression == nullptr || !program->unit.kernel.empty()) return NVRTC_ERROR_INVALID_INPUT;
  program->unit.kernel = expression;
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                                     const char* const* options) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (program->compiled || program->unit.kernel.empty()) return NVRTC_ERROR_INVALID_INPUT;
  const Target target = read_options(program->unit, count, options);
  if (target.sm == 0) {
    program->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
    return NVRTC_ERROR_INVALID_OPTION;
  }
  program->compiled = true;
  try {
    return compile(*program, target);
  } catch (const std::exception& error) {
    program->log = std::string("software NVRTC: error: ") + error.what() + "\n";
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  return size_of(program->log, size, true);
}
SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return copy_out(program->log, log, true);
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression,
                                                     const char** name) {
  if (program->kernel_name.empty()) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  if (program->unit.kernel != expression) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *name = program->kernel_name.c_str();
  return NVRTC_SUCCESS;
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  return size_of(program->cubin, size, false);
}
SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  return copy_out(program->cubin, cubin, false);
}

SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* size) {
  return size_of(program->ptx, size, !program->ptx.empty());
}
SOFTWARE_CUDA_EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  return copy_out(program->ptx, ptx, !program->ptx.empty());
}
