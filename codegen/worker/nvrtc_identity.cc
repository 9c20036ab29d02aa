#include "codegen/worker/nvrtc_identity.h"

#include <cstdlib>
#include <mutex>

#include "codegen/embedded_headers.h"
#include "codegen/nvrtc_library.h"
#include "codegen/push_list.h"
#include "codegen/worker/protocol.h"
#include "codegen/worker/worker_process.h"

namespace minuet {
namespace {

/// What helpers have told, by what they were asked, for as long as this process lives: as it would go on with
/// the library that it had opened.
struct Told {
  std::string question;
  NvrtcInfo info;
};

/// Never destroyed, and without a lock that a fork could leave held.
PushList<Told>& all_told() {
  static auto* const list = new PushList<Told>;
  return *list;
}

std::string question_of(const std::string& helper, const WorkerJob& job) {
  const char* const named = std::getenv("MINUET_NVRTC");
  std::string question = helper + "\n" + job.nvrtc + "\n" + (named != nullptr ? named : "");
  for (const std::string& path : job.loaded) question += "\n" + path;
  return question;
}

llvm::Expected<NvrtcInfo> read_answer(const WorkerAnswer& answer) {
  if (answer.code == StatusCode::Ok) return decode_info(answer.result);
  return llvm::make_error<StatusError>(answer.code, answer.message, answer.detail);
}

/// Sets `has_helper` once a helper has started. One that is lost is started once more.
llvm::Expected<NvrtcInfo> ask_helper(const std::string& library, std::string helper, bool& has_helper) {
  if (helper.empty()) {
    MINUET_ASSIGN(helper, find_helper());
  }
  WorkerJob job;
  job.identify = true;
  job.nvrtc = library;
  job.loaded = loaded_nvrtcs();
  const std::string question = question_of(helper, job);
  const NvrtcInfo* known = nullptr;
  all_told().for_each([&](const Told& told) {
    if (told.question == question) known = &told.info;
  });
  if (known != nullptr) return *known;
  std::string how;
  for (int attempt = 0; attempt < 2; ++attempt) {
    MINUET_ASSIGN(const std::unique_ptr<WorkerProcess> process, WorkerProcess::start(helper));
    has_helper = true;
    llvm::Expected<WorkerAnswer> answer = process->ask(job, nullptr);
    if (answer) {
      MINUET_ASSIGN(NvrtcInfo info, read_answer(*answer));
      all_told().push({question, info});
      return info;
    }
    how = take_status(answer.takeError()).message();
  }
  return make_error(StatusCode::Unavailable, "{0} was lost twice while it opened libnvrtc; at last: {1}",
                    helper, how);
}

class LazyNvrtc : public Compiler {
 public:
  explicit LazyNvrtc(std::string library) : library_(std::move(library)) {}

  std::string id() const override { return info().id; }
  std::string library() const override { return info().path; }
  std::string header_digest() const override { return embedded_header_digest(); }
  std::vector<std::string> options(llvm::StringRef arch) const override { return compile_options(arch); }
  llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch, llvm::StringRef seed,
                                 const CompileControl& control) override {
    if (info().id.empty()) return llvm::make_error<StatusError>(*failure_);
    MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(info().path));
    if (compiler->id() == info().id) return compiler->compile(source, arch, seed, control);
    return make_error(StatusCode::FailedPrecondition,
                      "{0} is not what it was when this process began to look for kernels: start it anew",
                      info().path);
  }

 private:
  const NvrtcInfo& info() const {
    std::call_once(once_, [this] {
      llvm::Expected<NvrtcInfo> info = identify_nvrtc(library_);
      if (info) {
        info_ = std::move(*info);
      } else {
        failure_ = std::make_unique<StatusError>(take_status(info.takeError()));
      }
    });
    return info_;
  }

  const std::string library_;
  mutable std::once_flag once_;
  mutable NvrtcInfo info_;                        // empty where there is none
  mutable std::unique_ptr<StatusError> failure_;  // then
};

}  // namespace

llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library, const std::string& helper) {
  bool has_helper = false;
  llvm::Expected<NvrtcInfo> info = ask_helper(library, helper, has_helper);
  if (info || has_helper) return info;
  llvm::consumeError(info.takeError());
  return nvrtc_info(library);
}

std::shared_ptr<Compiler> make_lazy_nvrtc(std::string library) {
  return std::make_shared<LazyNvrtc>(std::move(library));
}

}  // namespace minuet
