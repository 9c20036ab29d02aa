#include "codegen/compile/identify_nvrtc.h"

#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <variant>

#include "codegen/base/fork_watch.h"
#include "codegen/compile/helper_compiler.h"
#include "codegen/compile/nvrtc_library.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {
namespace {

/// Holds the NVRTC that a helper process found, or the reason why there is none.
using Told = std::variant<NvrtcInfo, StatusError>;

/// Holds the answer to each question that was asked (question_of()), for which threads may still be waiting.
struct Identified {
  std::mutex mutex;  // No thread holds this mutex while it waits for the answer of a helper process.
  std::map<std::string, std::shared_future<Told>> told;
};

/// Returns the answers that this process knows. They are never destroyed, because other threads may use them
/// when the process ends.
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

bool was_cancelled(const Told& told) {
  const auto* const failure = std::get_if<StatusError>(&told);
  return failure != nullptr && failure->code() == StatusCode::Cancelled;
}

/// Asks the helper process of `control` if there is one, so that the same process can compile next. Otherwise
/// starts a helper process for this question alone.
llvm::Expected<NvrtcInfo> ask_helper(const std::string& program, const HelperJob& job,
                                     const CompileControl& control) {
  Helper own_helper;
  Helper& helper = control.helper != nullptr ? *control.helper : own_helper;
  const int lost = helper.report().lost;
  llvm::Expected<std::string> bytes = helper.ask(program, job, control.cancel, "looking for libnvrtc");
  if (bytes) return decode_info(*bytes);
  StatusError status = take_status(bytes.takeError());
  if (status.code() != StatusCode::ResourceExhausted || helper.report().lost == lost)
    return llvm::make_error<StatusError>(std::move(status));
  // Identifying needs little memory, so the helper process was not lost for lack of memory. Either the
  // library that it opens or the program itself is broken.
  return make_error(
      StatusCode::Unavailable,
      "{0}: check that minuet-compile runs on this machine, or name another library with MINUET_NVRTC",
      status.message());
}

/// Calls ask() and publishes the answer through `promise`. A failure is passed to the threads that already
/// wait for it, but is removed from `known`, so later threads ask again.
void publish_answer(Identified& known, const std::string& question, std::promise<Told>& promise,
                    llvm::function_ref<llvm::Expected<NvrtcInfo>()> ask) {
  const auto invalidate = [&] {
    const std::lock_guard<std::mutex> lock(known.mutex);
    known.told.erase(question);
  };
  try {
    llvm::Expected<NvrtcInfo> info = ask();
    if (info) return promise.set_value(std::move(*info));
    StatusError failure = take_status(info.takeError());
    invalidate();
    promise.set_value(std::move(failure));
  } catch (...) {
    invalidate();
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
    std::promise<Told> promise;
    std::shared_future<Told> told;
    bool ours = false;
    {
      const std::lock_guard<std::mutex> lock(known.mutex);
      const auto [slot, added] = known.told.try_emplace(question);
      if (added) slot->second = promise.get_future().share();
      told = slot->second;
      ours = added;
    }
    if (ours) publish_answer(known, question, promise, [&] { return ask_helper(program, job, control); });
    if (!wait_for(told, control.cancel)) break;
    if (!ours && was_cancelled(told.get())) continue;  // The asking thread was cancelled, so try again.
    if (const auto* const failure = std::get_if<StatusError>(&told.get()))
      return llvm::make_error<StatusError>(*failure);
    return std::get<NvrtcInfo>(told.get());
  }
  return make_error(StatusCode::Cancelled, "looking for libnvrtc was cancelled");
}

}  // namespace minuet
