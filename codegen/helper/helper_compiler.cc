#include "codegen/helper/helper_compiler.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <variant>

#include "codegen/cache/entry.h"
#include "codegen/fork_watch.h"
#include "codegen/helper/pch_folder.h"
#include "codegen/nvrtc_library.h"
#include "codegen/push_list.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {
namespace {

constexpr std::int64_t kLargeBytes = std::int64_t{256} << 20;
/// How long a start is tried where the system has no process or file to spare: others will end.
constexpr auto kStartPatience = std::chrono::seconds(5);
constexpr int kStartStepMs = 20;

}  // namespace

// ---- a thread's helper ---------------------------------------------------------------------------------

llvm::Error Helper::start(const std::string& program, const CancelToken* cancel) {
  std::string path = program;
  if (path.empty()) {
    MINUET_ASSIGN(path, find_helper());
  }
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  while (true) {
    if (is_cancelled(cancel)) return make_error(StatusCode::Cancelled, "the compile was cancelled");
    llvm::Expected<std::unique_ptr<HelperProcess>> started = HelperProcess::start(path);
    if (started) {
      process_ = std::move(*started);
      peak_bytes_ = 0;
      ++report_.started;
      return llvm::Error::success();
    }
    StatusError status = take_status(started.takeError());
    if (status.code() != StatusCode::ResourceExhausted || std::chrono::steady_clock::now() > end)
      return llvm::make_error<StatusError>(std::move(status));
    ::poll(nullptr, 0, kStartStepMs);
  }
}

llvm::Expected<std::string> Helper::read_answer(HelperAnswer answer) {
  peak_bytes_ = answer.peak_bytes;
  report_.peak_bytes = std::max(report_.peak_bytes, answer.peak_bytes);
  report_.pch_created += answer.pch_use == PchUse::Created;
  report_.pch_used += answer.pch_use == PchUse::Used;
  if (answer.code == StatusCode::Ok) return std::move(answer.result);
  return llvm::make_error<StatusError>(answer.code, std::move(answer.message), std::move(answer.detail));
}

llvm::Expected<std::string> Helper::ask(const std::string& program, const HelperJob& job,
                                        const CancelToken* cancel, const std::string& what) {
  std::string how;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!process_) MINUET_TRY(annotate(start(program, cancel), what));
    llvm::Expected<HelperAnswer> answer = process_->ask(job, cancel);
    if (answer) return read_answer(std::move(*answer));
    StatusError status = take_status(answer.takeError());
    process_.reset();
    if (job.pch) sweep_pch_folders();
    if (status.code() == StatusCode::Cancelled) {
      status.annotate(what);
      return llvm::make_error<StatusError>(std::move(status));
    }
    how = status.message();
    ++report_.lost;
  }
  // Most often the system's answer to want of memory.
  return make_error(StatusCode::ResourceExhausted, "{0}: the helper program was lost twice; at last: {1}",
                    what, how);
}

void Helper::end_if_large() {
  if (peak_bytes_ > kLargeBytes) process_.reset();
}

// ---- which NVRTC there is -------------------------------------------------------------------------------

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

std::string question_of(const std::string& program, const HelperJob& job) {
  const char* const named = std::getenv("MINUET_NVRTC");
  std::string question = program + "\n" + job.nvrtc + "\n" + (named != nullptr ? named : "");
  for (const std::string& path : job.others) question += "\n" + path;
  return question;
}

bool was_cancelled(const Answer& answer) {
  const auto* const failure = std::get_if<StatusError>(&answer);
  return failure != nullptr && failure->code() == StatusCode::Cancelled;
}

/// The helper that tells is the one that goes on to compile, where there is one already.
llvm::Expected<NvrtcInfo> ask_helper(const std::string& program, const HelperJob& job,
                                     const CompileControl& control) {
  Helper of_its_own;
  Helper& helper = control.helper != nullptr ? *control.helper : of_its_own;
  const int lost = helper.report().lost;
  llvm::Expected<std::string> bytes = helper.ask(program, job, control.cancel, "looking for libnvrtc");
  if (bytes) return decode_info(*bytes);
  StatusError status = take_status(bytes.takeError());
  if (status.code() != StatusCode::ResourceExhausted || helper.report().lost == lost)
    return llvm::make_error<StatusError>(std::move(status));
  // It takes no memory to speak of: what it opens, or the program itself, is broken.
  return make_error(StatusCode::Unavailable,
                    "{0}: see that minuet-compile runs here, or name another library with MINUET_NVRTC",
                    status.message());
}

/// A failure is for those who wait for it now, and then forgotten.
void land(Identified& known, const std::string& question, std::promise<Answer>& promise,
          llvm::function_ref<llvm::Expected<NvrtcInfo>()> ask) {
  const auto forget = [&] {
    const std::lock_guard<std::mutex> lock(known.mutex);
    known.answers.erase(question);
  };
  try {
    llvm::Expected<NvrtcInfo> info = ask();
    if (info) return promise.set_value(std::move(*info));
    StatusError failure = take_status(info.takeError());
    forget();
    promise.set_value(std::move(failure));
  } catch (...) {
    forget();
    promise.set_exception(std::current_exception());
  }
}

}  // namespace

llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library, const std::string& program,
                                         const CompileControl& control) {
  HelperJob job;
  job.identify = true;
  job.nvrtc = library;
  job.others = loaded_nvrtcs();
  const std::string question = question_of(program, job);
  Identified& known = identified();
  while (!is_cancelled(control.cancel)) {
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
    if (ours) land(known, question, promise, [&] { return ask_helper(program, job, control); });
    if (!wait_for(answer, control.cancel)) break;
    if (!ours && was_cancelled(answer.get())) continue;  // not by us
    if (const auto* const failure = std::get_if<StatusError>(&answer.get()))
      return llvm::make_error<StatusError>(*failure);
    return std::get<NvrtcInfo>(answer.get());
  }
  return make_error(StatusCode::Cancelled, "looking for libnvrtc was cancelled");
}

// ---- the compiler ---------------------------------------------------------------------------------------

namespace {

class HelperCompiler : public Compiler {
 public:
  HelperCompiler(std::string library, std::string program)
      : library_(std::move(library)), program_(std::move(program)) {}

  llvm::Expected<NvrtcInfo> identify(const CompileControl& control) override {
    if (const NvrtcInfo* const info = info_.first()) return *info;
    MINUET_ASSIGN(NvrtcInfo info, identify_nvrtc(library_, program_, control));
    info_.push(info);
    return info;
  }

  llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch, llvm::StringRef,
                                 const CompileControl& control) override {
    Helper of_its_own;
    CompileControl with = control;
    if (with.helper == nullptr) with.helper = &of_its_own;
    MINUET_ASSIGN(const NvrtcInfo info, identify(with));
    const HelperJob job{{source, arch.str()}, info.path, control.pch, control.time_trace};
    MINUET_ASSIGN(std::string bytes, with.helper->ask(program_, job, control.cancel,
                                                      source.display_name + " for " + job.request.arch));
    MINUET_ASSIGN(Entry entry, read_entry(bytes));
    if (entry.request_key != key_of(job.request)) {
      return make_error(StatusCode::Internal, "the helper answered {0} with another kernel",
                        source.display_name);
    }
    // Another NVRTC's kernel would lie under the wrong build key.
    if (entry.binary.compiler_id != info.id) {
      return make_error(StatusCode::FailedPrecondition,
                        "{0} is not what it was when this process began to look for kernels: start it anew",
                        info.path);
    }
    if (control.packed != nullptr) *control.packed = std::move(bytes);
    return std::move(entry.binary);
  }

 private:
  const std::string library_, program_;
  PushList<NvrtcInfo> info_;  // empty until it was told
};

}  // namespace

std::shared_ptr<Compiler> make_helper_compiler(std::string library, std::string program) {
  return std::make_shared<HelperCompiler>(std::move(library), std::move(program));
}

}  // namespace minuet
