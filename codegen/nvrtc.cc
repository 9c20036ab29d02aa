// The one file that reads nvrtc.h. Only its types: every function is looked up in the open library.
#include <nvrtc.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "codegen/compiler.h"
#include "codegen/diagnostics.h"
#include "codegen/elf.h"
#include "codegen/embedded_headers.h"
#include "codegen/nvrtc_library.h"
#include "llvm/ADT/SmallVector.h"

namespace minuet {
namespace {

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
  X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) X(nvrtcGetLoweredName) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN)
#define MINUET_DECLARE(name) decltype(&::name) name = nullptr;
  MINUET_NVRTC_FUNCTIONS(MINUET_DECLARE)
#undef MINUET_DECLARE

  llvm::Error load(const NvrtcLibrary& library) {
#define MINUET_LOAD(name)                                                                             \
  name = reinterpret_cast<decltype(name)>(library.symbol(#name));                                     \
  if (name == nullptr) {                                                                              \
    return make_error(StatusCode::Unavailable, "{0} has no {1}: it is no libnvrtc, or a too old one", \
                      library.path, #name);                                                           \
  }
    MINUET_NVRTC_FUNCTIONS(MINUET_LOAD)
#undef MINUET_LOAD
    return llvm::Error::success();
  }
};

/// One nvrtcProgram.
class Program {
 public:
  explicit Program(const NvrtcApi& api) : api_(api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) api_.nvrtcDestroyProgram(&program_);
  }

  nvrtcResult create(const KernelSource& source, const std::vector<Header>& headers) {
    std::vector<const char*> names, texts;
    for (const Header& header : headers) {
      names.push_back(header.name.data());
      texts.push_back(header.text.data());
    }
    return api_.nvrtcCreateProgram(&program_, source.text.c_str(), kProgramName,
                                   static_cast<int>(headers.size()), texts.data(), names.data());
  }

  nvrtcResult compile(const KernelSource& source, const std::vector<std::string>& options) {
    const nvrtcResult added = api_.nvrtcAddNameExpression(program_, source.name_expression.c_str());
    if (added != NVRTC_SUCCESS) return added;
    std::vector<const char*> texts;
    texts.reserve(options.size());
    for (const std::string& option : options) texts.push_back(option.c_str());
    return api_.nvrtcCompileProgram(program_, static_cast<int>(texts.size()), texts.data());
  }

  std::string log() const {
    return read(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog, /*terminated=*/true);
  }
  std::string cubin() const { return read(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN, /*terminated=*/false); }

  std::string lowered_name(const KernelSource& source) const {
    const char* name = nullptr;
    const nvrtcResult result = api_.nvrtcGetLoweredName(program_, source.name_expression.c_str(), &name);
    return result == NVRTC_SUCCESS && name != nullptr ? name : "";
  }

 private:
  template <class SizeOf, class Get>
  std::string read(SizeOf size_of, Get get, bool terminated) const {
    std::size_t size = 0;
    if (program_ == nullptr || size_of(program_, &size) != NVRTC_SUCCESS || size == 0) return {};
    std::string bytes(size, '\0');
    if (get(program_, bytes.data()) != NVRTC_SUCCESS) return {};
    if (terminated) bytes.pop_back();
    return bytes;
  }

  const NvrtcApi& api_;
  nvrtcProgram program_ = nullptr;
};

/// The log without what differs from run to run.
std::string stable_log(llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  log.split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::string kept;
  for (llvm::StringRef line : lines) {
    if (!line.contains("Compile time = ")) kept += line.str() + "\n";
  }
  return kept;
}

class NvrtcCompiler : public Compiler {
 public:
  static llvm::Expected<std::shared_ptr<NvrtcCompiler>> create(NvrtcLibrary library) {
    auto compiler = std::make_shared<NvrtcCompiler>();
    MINUET_TRY(compiler->api_.load(library));
    int major = 0, minor = 0;
    compiler->api_.nvrtcVersion(&major, &minor);
    compiler->info_.path = library.path;
    compiler->info_.version = std::to_string(major) + "." + std::to_string(minor);
    if (major * 100 + minor < 1208) {
      return make_error(StatusCode::Unavailable, "{0} is NVRTC {1}; Minuet needs 12.8 or newer", library.path,
                        compiler->info_.version);
    }
    compiler->takes_no_cache_ = major * 100 + minor >= 1209;
    MINUET_ASSIGN(const std::string builtins, open_builtins(library, compiler->info_.version));
    MINUET_ASSIGN(const std::string library_id, read_build_id(library.path));
    MINUET_ASSIGN(const std::string builtins_id, read_build_id(builtins));
    compiler->id_ = "nvrtc " + compiler->info_.version + " " + library_id + " " + builtins_id;
    compiler->read_archs();
    return compiler;
  }

  const NvrtcInfo& info() const { return info_; }
  std::string id() const override { return id_; }
  std::string header_digest() const override { return embedded_header_digest(); }

  std::vector<std::string> options(llvm::StringRef arch) const override { return compile_options(arch); }

  llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch, llvm::StringRef seed,
                                 const CompileControl& control) override {
    static_cast<void>(control);
    MINUET_ASSIGN(const std::vector<Header> headers, headers_for(source.text));
    std::vector<std::string> all = options(arch);
    // Not as a number: NVRTC 13.0 takes one above 32 bits for no seed at all, and every compile differs.
    all.push_back(("--frandom-seed=rk-" + seed).str());
    // NVRTC's own cache would ask libcuda for its version; ours is in front of it anyway.
    if (takes_no_cache_) all.push_back("--no-cache");
    const auto start = std::chrono::steady_clock::now();
    Program program(api_);
    nvrtcResult result = program.create(source, headers);
    if (result == NVRTC_SUCCESS) result = program.compile(source, all);
    if (result != NVRTC_SUCCESS) return failure(result, program, source, arch, seed, all);
    Binary binary;
    binary.compile_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    binary.log = stable_log(program.log());
    binary.cubin = program.cubin();
    binary.lowered_name = program.lowered_name(source);
    binary.display_name = source.display_name;
    binary.arch = arch.str();
    binary.compiler_id = id_;
    MINUET_ASSIGN(const CubinFacts facts, read_cubin(binary.cubin, binary.lowered_name));
    binary.registers = facts.registers;
    binary.shared_bytes = facts.shared_bytes;
    binary.local_bytes = facts.local_bytes;
    binary.max_threads = facts.max_threads;
    binary.params_bytes = facts.params_bytes;
    return binary;
  }

 private:
  llvm::Error failure(nvrtcResult result, const Program& program, const KernelSource& source,
                      llvm::StringRef arch, llvm::StringRef seed,
                      const std::vector<std::string>& options) const {
    CompileFailure failure;
    failure.status = static_cast<int>(result);
    failure.status_name = api_.nvrtcGetErrorString(result);
    failure.log = stable_log(program.log());
    failure.arch = arch.str();
    failure.options = options;
    failure.request_key = seed.str();
    failure.compiler = "NVRTC " + info_.version + " (" + info_.path + ")";
    failure.archs = info_.archs;
    return llvm::make_error<StatusError>(compile_error(failure, source, unpacked_header));
  }

  void read_archs() {
    int count = 0;
    if (api_.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) return;
    std::vector<int> numbers(static_cast<std::size_t>(count));
    if (api_.nvrtcGetSupportedArchs(numbers.data()) != NVRTC_SUCCESS) return;
    for (int number : numbers) info_.archs.push_back("sm_" + std::to_string(number));
  }

  NvrtcApi api_;
  NvrtcInfo info_;
  std::string id_;
  bool takes_no_cache_ = false;
};

llvm::Expected<std::shared_ptr<NvrtcCompiler>> open_compiler(llvm::StringRef path) {
  // One compiler a library and process; never destroyed, as the library is never closed.
  static auto* const mutex = new std::mutex;
  static auto* const open = new std::map<std::string, std::shared_ptr<NvrtcCompiler>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::string tried;
  for (const std::string& candidate : nvrtc_candidates(this_process(path))) {
    const std::optional<NvrtcLibrary> library = open_nvrtc_library(candidate, tried);
    if (!library) continue;
    std::shared_ptr<NvrtcCompiler>& known = (*open)[library->path];
    if (known == nullptr) {
      llvm::Expected<std::shared_ptr<NvrtcCompiler>> compiler = NvrtcCompiler::create(*library);
      if (compiler) {
        known = *compiler;
      } else {
        tried += "\n  " + llvm::toString(compiler.takeError());
      }
    }
    if (known != nullptr) return known;
  }
  return nvrtc_not_found(tried);
}

}  // namespace

std::vector<std::string> compile_options(llvm::StringRef arch) {
  return {"--std=c++20", ("-arch=" + arch).str(),
          "--no-source-include",  // headers come from memory or not at all (R3)
          // As on the CPU device: a fused multiply-add in one place and not the next would make them differ.
          "--fmad=false", "--ptxas-options=-v"};  // registers and spills in the log
}

llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef library) {
  MINUET_ASSIGN(std::shared_ptr<NvrtcCompiler> compiler, open_compiler(library));
  return compiler;
}

llvm::Expected<NvrtcInfo> nvrtc_info() {
  MINUET_ASSIGN(const std::shared_ptr<NvrtcCompiler> compiler, open_compiler({}));
  return compiler->info();
}

}  // namespace minuet
