// Implements Compiler with NVRTC. Only this file includes nvrtc.h, and only for its types, because every
// function is looked up in the open library.
#include <nvrtc.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/arch.h"
#include "codegen/base/elf.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/diagnostics.h"
#include "codegen/compile/nvrtc_library.h"
#include "codegen/source/embed/header_blob.h"
#include "codegen/source/embedded_headers.h"
#include "codegen/source/keys.h"
#include "llvm/ADT/SmallVector.h"

namespace minuet {
namespace {

// The following types hold the functions of NVRTC and one nvrtcProgram.

/// Holds the functions of an open libnvrtc.
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
#define MINUET_DECLARE(name) decltype(&::name) name = nullptr;
  MINUET_NVRTC_FUNCTIONS(MINUET_DECLARE)
#undef MINUET_DECLARE

  llvm::Error load(const NvrtcLibrary& library) {
#define MINUET_REQUIRE(name)                                                                         \
  name = reinterpret_cast<decltype(name)>(library.symbol(#name));                                    \
  if (name == nullptr) {                                                                             \
    return make_error(                                                                               \
        StatusCode::Unavailable,                                                                     \
        "{0} has no function {1}, so it is not libnvrtc or is too old: install NVRTC 12.8 or newer", \
        library.path, #name);                                                                        \
  }
    MINUET_NVRTC_FUNCTIONS(MINUET_REQUIRE)
#undef MINUET_REQUIRE
    return llvm::Error::success();
  }
};

/// Owns one nvrtcProgram.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const NvrtcApi& api) : api_(api) {}
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  ~NvrtcProgram() {
    if (program_ != nullptr) api_.nvrtcDestroyProgram(&program_);
  }

  /// Compiles the source. This must be the first call, and may be called only once.
  nvrtcResult build(const KernelSource& source, const std::vector<Header>& headers,
                    const std::vector<std::string>& options);
  std::string log() const { return read(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog, true); }
  std::string cubin() const { return read(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN, false); }
  std::string ptx() const { return read(api_.nvrtcGetPTXSize, api_.nvrtcGetPTX, true); }
  std::string lowered_name(const KernelSource& source) const;

 private:
  /// Returns the bytes that `get` reads, or an empty string after an error. If `terminated` is true, removes
  /// NULs from the end.
  template <class SizeOf, class Get>
  std::string read(SizeOf size_of, Get get, bool terminated) const;

  const NvrtcApi& api_;
  nvrtcProgram program_ = nullptr;
};

nvrtcResult NvrtcProgram::build(const KernelSource& source, const std::vector<Header>& headers,
                                const std::vector<std::string>& options) {
  std::vector<const char*> names, texts, flags;
  for (const Header& header : headers) {
    names.push_back(header.name.data());
    texts.push_back(header.text.data());
  }
  for (const std::string& option : options) flags.push_back(option.c_str());
  nvrtcResult result = api_.nvrtcCreateProgram(&program_, source.text.c_str(), kProgramName,
                                               static_cast<int>(headers.size()), texts.data(), names.data());
  if (result == NVRTC_SUCCESS) result = api_.nvrtcAddNameExpression(program_, source.name_expression.c_str());
  if (result == NVRTC_SUCCESS)
    result = api_.nvrtcCompileProgram(program_, static_cast<int>(flags.size()), flags.data());
  return result;
}

std::string NvrtcProgram::lowered_name(const KernelSource& source) const {
  const char* name = nullptr;
  const nvrtcResult result = api_.nvrtcGetLoweredName(program_, source.name_expression.c_str(), &name);
  return result == NVRTC_SUCCESS && name != nullptr ? name : "";
}

template <class SizeOf, class Get>
std::string NvrtcProgram::read(SizeOf size_of, Get get, bool terminated) const {
  std::size_t size = 0;
  if (program_ == nullptr || size_of(program_, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::string bytes(size, '\0');
  if (get(program_, bytes.data()) != NVRTC_SUCCESS) return {};
  // A log of NVRTC 13.0 ends in two NULs.
  while (terminated && !bytes.empty() && bytes.back() == '\0') bytes.pop_back();
  return bytes;
}

// The following code implements the interface Compiler.

/// Returns the log without the lines that differ from run to run.
std::string stable_log(llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  log.split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::string kept;
  for (llvm::StringRef line : lines) {
    if (!line.contains("Compile time = ")) kept += line.str() + "\n";
  }
  return kept;
}

/// Returns the greatest number that is directly before `words` in the log, or 0 if there is none.
int number_before(llvm::StringRef log, llvm::StringRef words) {
  int greatest = 0;
  for (std::size_t at = log.find(words); at != llvm::StringRef::npos; at = log.find(words, at + 1)) {
    llvm::StringRef digits = log.take_front(at);
    digits = digits.drop_front(digits.find_last_not_of("0123456789") + 1);
    int number = 0;
    if (!digits.getAsInteger(10, number)) greatest = std::max(greatest, number);
  }
  return greatest;
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
      return make_error(StatusCode::Unavailable, "{0} is NVRTC {1}, which is too old: install 12.8 or newer",
                        library.path, compiler->info_.version);
    }
    compiler->takes_no_cache_ = major * 100 + minor >= 1209;
    MINUET_ASSIGN(const NvrtcLibrary builtins, open_builtins(library, compiler->info_.version));
    compiler->info_.id =
        "nvrtc " + compiler->info_.version + " " + library.build_id() + " " + builtins.build_id();
    compiler->read_archs();
    return compiler;
  }

  llvm::Expected<NvrtcInfo> info(const CompileControl&) override { return info_; }

  llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl&) override {
    MINUET_ASSIGN(const std::vector<Header> headers, headers_for(request.source.text));
    const std::vector<std::string> options = options_of(request);
    const auto start = std::chrono::steady_clock::now();
    NvrtcProgram program(api_);
    const nvrtcResult result = program.build(request.source, headers, options);
    if (result != NVRTC_SUCCESS) return failure(program, result, request, options);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    return read_binary(program, request.source, request.arch, taken.count());
  }

 private:
  /// Returns the options of every kernel, those of this source, and options that do not change the result.
  std::vector<std::string> options_of(const KernelRequest& request) const {
    std::vector<std::string> all = compile_options(request.arch);
    all.insert(all.end(), request.source.options.begin(), request.source.options.end());
    // The seed is text and not a number. NVRTC 13.0 ignores a number above 32 bits, and then two compiles of
    // a source give different binaries.
    all.push_back("--frandom-seed=rk-" + seed_of(request));
    // NVRTC's own cache would ask libcuda for its version, and Minuet has its own cache.
    if (takes_no_cache_) all.push_back("--no-cache");
    return all;
  }

  static std::string seed_of(const KernelRequest& request) { return request.key.substr(0, 16); }

  llvm::Expected<Binary> read_binary(const NvrtcProgram& program, const KernelSource& source,
                                     llvm::StringRef arch, double compile_ms) const {
    Binary binary;
    binary.compile_ms = compile_ms;
    binary.log = stable_log(program.log());
    binary.cubin = is_ptx(arch) ? program.ptx() : program.cubin();
    binary.lowered_name = program.lowered_name(source);
    binary.display_name = source.display_name;
    binary.arch = arch.str();
    binary.compiler_id = info_.id;
    if (is_ptx(arch)) return binary;
    MINUET_ASSIGN(const CubinFacts facts, read_cubin(binary.cubin, binary.lowered_name));
    binary.registers = number_before(binary.log, " registers,");
    binary.shared_bytes = number_before(binary.log, " bytes smem");
    // The stack frame belongs to the kernel alone. The cumulative stack size includes the functions that it
    // calls.
    binary.local_bytes = std::max(number_before(binary.log, " bytes stack frame"),
                                  number_before(binary.log, " bytes cumulative stack size"));
    binary.max_threads = facts.max_threads;
    binary.params_bytes = facts.params_bytes;
    return binary;
  }

  llvm::Error failure(const NvrtcProgram& program, nvrtcResult result, const KernelRequest& request,
                      const std::vector<std::string>& options) const {
    CompileFailure failure;
    failure.status = static_cast<int>(result);
    failure.status_name = api_.nvrtcGetErrorString(result);
    failure.log = stable_log(program.log());
    failure.arch = request.arch;
    failure.options = options;
    failure.request_key = seed_of(request);
    failure.compiler = "NVRTC " + info_.version + " (" + info_.path + ")";
    failure.archs = info_.archs;
    return llvm::make_error<StatusError>(compile_error(failure, request.source, unpacked_header));
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
  bool takes_no_cache_ = false;
};

}  // namespace

llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef path,
                                                     const std::vector<std::string>& others) {
  // There is one compiler per library and process. It is never destroyed, because the library is never
  // closed.
  static auto* const mutex = new std::mutex;
  static auto* const open = new std::map<std::string, std::shared_ptr<NvrtcCompiler>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  const NvrtcPlaces places = this_process(path, others);
  std::string tried;
  for (const std::string& candidate : nvrtc_candidates(places)) {
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
  return nvrtc_not_found(places, tried);
}

}  // namespace minuet
