#include "codegen/worker/helper_compiler.h"

#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <variant>

#include "codegen/fork_watch.h"
#include "codegen/nvrtc_library.h"
#include "codegen/push_list.h"
#include "codegen/worker/worker_pool.h"

namespace minuet {
namespace {

/// What a helper told, or why it did not.
using Answer = std::variant<NvrtcInfo, StatusError>;

/// What is asked just now, and what was told, by how it was asked.
struct Identified {
  std::mutex mutex;  // never held while a helper is asked
  std::map<std::string, std::shared_future<Answer>> answers;
};

/// Never destroyed: other threads may be at it when the process ends.
Identified& identified() {
  static auto* const one = new PerProcess<Identified>;
  return one->get();
}

std::string question_of(const WorkerOptions& options, const std::vector<std::string>& loaded) {
  const char* const named = std::getenv("MINUET_NVRTC");
  std::string question = options.helper + "\n" + options.nvrtc + "\n" + (named != nullptr ? named : "");
  for (const std::string& path : loaded) question += "\n" + path;
  return question;
}

bool was_cancelled(const Answer& answer) {
  const auto* const failure = std::get_if<StatusError>(&answer);
  return failure != nullptr && failure->code() == StatusCode::Cancelled;
}

/// A failure is for those who wait for it now, and then forgotten.
void ask(Identified& known, const std::string& question, const WorkerOptions& options,
         const std::vector<std::string>& loaded, std::promise<Answer>& promise) {
  const auto forget = [&] {
    const std::lock_guard<std::mutex> lock(known.mutex);
    known.answers.erase(question);
  };
  try {
    llvm::Expected<NvrtcInfo> info = identify_in_worker(options, loaded);
    if (info) return promise.set_value(std::move(*info));
    StatusError failure = take_status(info.takeError());
    forget();
    promise.set_value(std::move(failure));
  } catch (...) {
    forget();
    promise.set_exception(std::current_exception());
  }
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
  llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch, llvm::StringRef,
                                 const CompileControl& control) override {
    if (control.pch_use != nullptr) *control.pch_use = PchUse::None;
    MINUET_ASSIGN(const NvrtcInfo info, identify(control.cancel));
    WorkerOptions options;
    options.helper = helper_;
    options.nvrtc = info.path;
    options.cancel = control.cancel;
    options.time_trace = control.time_trace;
    MINUET_ASSIGN(PackedEntry compiled, compile_in_worker({source, arch.str()}, options));
    // Another NVRTC's kernel would lie under the wrong build key.
    if (compiled.entry.binary.compiler_id == info.id) {
      if (control.packed != nullptr) *control.packed = std::move(compiled.bytes);
      return std::move(compiled.entry.binary);
    }
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
  const std::string question = question_of(options, loaded);
  Identified& known = identified();
  while (!is_cancelled(cancel)) {
    std::promise<Answer> promise;
    std::shared_future<Answer> answer;
    bool ours = false;
    {
      const std::lock_guard<std::mutex> lock(known.mutex);
      const auto [slot, added] = known.answers.try_emplace(question);
      if (added) slot->second = promise.get_future().share();
      answer = slot->second;
      ours = added;
    }
    if (ours) ask(known, question, options, loaded, promise);
    if (!wait_for(answer, cancel)) break;
    if (!ours && was_cancelled(answer.get())) continue;  // not by us
    if (const auto* const failure = std::get_if<StatusError>(&answer.get()))
      return llvm::make_error<StatusError>(*failure);
    return std::get<NvrtcInfo>(answer.get());
  }
  return make_error(StatusCode::Cancelled, "looking for libnvrtc was cancelled");
}

std::shared_ptr<Compiler> make_helper_compiler(std::string library, std::string helper) {
  return std::make_shared<HelperCompiler>(std::move(library), std::move(helper));
}

}  // namespace minuet
