#include "codegen/base/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "codegen/base/json_text.h"
#include "codegen/base/whole_file.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

// More spans than this are dropped, because a trace covers the start of a process and must not grow without
// limit.
constexpr int kMostEvents = 100000;

std::int64_t microseconds(Trace::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

void Trace::add(const char* category, std::string name, Clock::time_point start) noexcept {
  const Clock::time_point end = Clock::now();
  try {
    if (count_ >= kMostEvents) return;
    ++count_;
    events_.push({category, std::move(name), static_cast<std::int64_t>(::syscall(SYS_gettid)),
                  microseconds(start.time_since_epoch()), microseconds(end - start)});
  } catch (...) {
    // The span is dropped if memory is exhausted.
  }
}

std::string Trace::json() const {
  std::vector<const Event*> events;
  events_.for_each([&](const Event& event) { events.push_back(&event); });
  llvm::json::Array spans;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    spans.push_back(llvm::json::Object{{"ph", "X"},
                                       {"cat", (*event)->category},
                                       {"name", llvm::json::fixUTF8((*event)->name)},
                                       {"pid", static_cast<std::int64_t>(::getpid())},
                                       {"tid", (*event)->thread},
                                       {"ts", (*event)->start_us},
                                       {"dur", (*event)->duration_us}});
  }
  return print_json(llvm::json::Object{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(spans)}});
}

llvm::Error Trace::write(const std::string& path) const {
  namespace fs = llvm::sys::fs;
  const std::string text = json() + "\n";
  fs::file_status status;
  if (fs::status(path, status) || status.type() == fs::file_type::regular_file) {
    llvm::SmallString<256> whole;
    if (fs::real_path(path, whole)) whole = path;  // real_path() fails if the file does not exist yet.
    return annotate(write_whole_file(whole.str().str(), text), "the trace cannot be written");
  }
  std::error_code failure;
  llvm::raw_fd_ostream file(path, failure, fs::OF_None);
  if (!failure) {
    file << text;
    file.close();
    failure = file.error();
    file.clear_error();  // Without this call, the destructor of `file` would abort the process.
  }
  if (!failure) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition, "the trace '{0}' cannot be written: {1}", path,
                    system_text(failure));
}

}  // namespace minuet
