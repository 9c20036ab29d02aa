#include "codegen/helper/serve.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "codegen/cache/entry.h"
#include "codegen/keys.h"
#include "llvm/Support/JSON.h"

namespace minuet {
namespace {

/// Not getrusage: its figure starts with that of the process which spawned us.
std::int64_t peak_bytes() {
  char text[4096];
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file >= 0 ? ::read(file, text, sizeof text) : -1;
  if (file >= 0) ::close(file);
  if (size <= 0) return 0;
  llvm::StringRef line = llvm::StringRef(text, static_cast<std::size_t>(size)).split("VmHWM:").second.ltrim();
  std::int64_t kilobytes = 0;
  return line.consumeInteger(10, kilobytes) ? 0 : kilobytes * 1024;
}

HelperAnswer failure(llvm::Error error) {
  const StatusError status = take_status(std::move(error));
  HelperAnswer answer;
  answer.code = status.code();
  answer.message = status.message();
  answer.detail = status.detail();
  return answer;
}

}  // namespace

bool follow_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == parent;  // else it died before the line above
}

void end_before_the_host() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(!::write(file, "1000", 4));  // where it cannot be, the system chooses as it would have
  ::close(file);
}

std::string JobCompiler::pch_directory() {
  if (!pch_folder_ && !has_no_pch_folder_) {
    llvm::Expected<std::unique_ptr<PchFolder>> folder = PchFolder::create();
    if (folder) {
      pch_folder_ = std::move(*folder);
    } else {
      // Slower without, and no less right.
      llvm::consumeError(folder.takeError());
      has_no_pch_folder_ = true;
    }
  }
  return pch_folder_ ? pch_folder_->path() : "";
}

llvm::Expected<std::string> JobCompiler::compile_entry(const HelperJob& job, PchUse& pch_use) {
  MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(job.nvrtc));
  Entry entry;
  entry.request_key = key_of(job.request);
  MINUET_ASSIGN(const NvrtcInfo info, compiler->identify());
  entry.build_key = build_key(entry.request_key, info.id);
  entry.name_expression = job.request.source.name_expression;
  CompileControl control;
  control.time_trace = job.time_trace;
  control.pch_use = &pch_use;
  if (job.pch) control.pch_directory = pch_directory();
  const llvm::StringRef seed = llvm::StringRef(entry.request_key).take_front(16);
  MINUET_ASSIGN(entry.binary, compiler->compile(job.request.source, job.request.arch, seed, control));
  return write_entry(entry);
}

llvm::Expected<std::string> JobCompiler::identify(const HelperJob& job) {
  MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(job.nvrtc, job.others));
  MINUET_ASSIGN(const NvrtcInfo info, compiler->identify());
  if (llvm::json::isUTF8(info.path)) return encode_info(info);
  return make_error(StatusCode::Unimplemented, "the path of libnvrtc is not UTF-8");
}

HelperAnswer JobCompiler::answer(const HelperJob& job) {
  HelperAnswer answer;
  llvm::Expected<std::string> result = job.identify ? identify(job) : compile_entry(job, answer.pch_use);
  if (!result) return failure(result.takeError());
  answer.result = std::move(*result);
  return answer;
}

llvm::Error serve(int input, int output, const std::function<HelperAnswer(const HelperJob&)>& answer_job) {
  FrameStream stream(input, output);
  while (true) {
    MINUET_ASSIGN(const std::optional<std::string> frame, stream.read());
    if (!frame) return llvm::Error::success();
    llvm::Expected<HelperJob> job = decode_job(*frame);
    HelperAnswer answer = job ? answer_job(*job) : failure(job.takeError());
    answer.peak_bytes = peak_bytes();
    MINUET_TRY(stream.write(encode_answer(answer)));
    MINUET_TRY(stream.write(answer.result));
  }
}

}  // namespace minuet
