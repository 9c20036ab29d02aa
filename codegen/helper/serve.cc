#include "codegen/helper/serve.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <optional>

namespace minuet {

bool follow_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == parent;  // else it died before the line above
}

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

}  // namespace

llvm::Error serve(int input, int output, const std::function<HelperAnswer(const HelperJob&)>& answer_job) {
  FrameStream stream(input, output);
  while (true) {
    MINUET_ASSIGN(const std::optional<std::string> frame, stream.read());
    if (!frame) return llvm::Error::success();
    llvm::Expected<HelperJob> job = decode_job(*frame);
    HelperAnswer answer = job ? answer_job(*job) : failed_answer(job.takeError());
    answer.peak_bytes = peak_bytes();
    MINUET_TRY(stream.write(encode_answer(answer)));
    MINUET_TRY(stream.write(answer.result));
  }
}

}  // namespace minuet
