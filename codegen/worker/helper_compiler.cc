#include "codegen/worker/helper_compiler.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "codegen/embedded_headers.h"
#include "codegen/fork_watch.h"
#include "codegen/nvrtc_library.h"
#include "codegen/push_list.h"
#include "codegen/worker/worker_pool.h"

namespace minuet {
namespace {

/// What helpers have told, by all that the answer depends on.
struct Identified {
  std::mutex mutex;  // held while a helper is asked
  std::map<std::string, NvrtcInfo> infos;
};

/// Never destroyed: other threads may be at it when the process ends.
Identified& identified() {
  static auto* const one = new PerProcess<Identified>;
  return one->get();
}

std::string identity_key(const WorkerOptions& options, const std::vector<std::string>& loaded) {
  const char* const named = std::getenv("MINUET_NVRTC");
  std::string key = options.helper + "\n" + options.nvrtc + "\n" + (named != nullptr ? named : "");
  for (const std::string& path : loaded) key += "\n" + path;
  return key;
}

class HelperCompiler : public Compiler {
 public:
  HelperCompiler(std::string library, std::string helper)
      : library_(std::move(library)), helper_(std::move(helper)) {}

  llvm::Expected<NvrtcInfo> identify(const CancelToken* cancel) override {
    if (const NvrtcInfo* const info = info_.first()) return *info;
    MINUET_ASSIGN(NvrtcInfo info, identify_nvrtc(library_, helper_, cancel));
    info_.push(info);
    return info;
  }
  std::string header_digest() const override { return embedded_header_digest(); }
  std::vector<std::string> options(llvm::StringRef arch) const override { return compile_options(arch); }
  llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch, llvm::StringRef,
                                 const CompileControl& control) override {
    if (control.pch_use != nullptr) *control.pch_use = PchUse::None;
    MINUET_ASSIGN(const NvrtcInfo info, identify(control.cancel));
    WorkerOptions options;
    options.helper = helper_;
    options.nvrtc = info.path;
    options.cancel = control.cancel;
    options.time_trace = control.time_trace;
    MINUET_ASSIGN(Entry entry, compile_in_worker({source, arch.str()}, options));
    // Another NVRTC's kernel would lie under the wrong build key.
    if (entry.binary.compiler_id == info.id) return std::move(entry.binary);
    return make_error(StatusCode::FailedPrecondition,
                      "{0} is not what it was when this process began to look for kernels: start it anew",
                      info.path);
  }

 private:
  const std::string library_, helper_;
  PushList<NvrtcInfo> info_;  // empty until it was told
};

}  // namespace

llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library, const std::string& helper,
                                         const CancelToken* cancel) {
  WorkerOptions options;
  options.helper = helper;
  options.nvrtc = library;
  options.cancel = cancel;
  const std::vector<std::string> loaded = loaded_nvrtcs();
  const std::string key = identity_key(options, loaded);
  Identified& known = identified();
  const std::lock_guard<std::mutex> lock(known.mutex);
  const auto found = known.infos.find(key);
  if (found != known.infos.end()) return found->second;
  MINUET_ASSIGN(NvrtcInfo info, identify_in_worker(options, loaded));
  known.infos.emplace(key, info);
  return info;
}

std::shared_ptr<Compiler> make_helper_compiler(std::string library, std::string helper) {
  return std::make_shared<HelperCompiler>(std::move(library), std::move(helper));
}

}  // namespace minuet
