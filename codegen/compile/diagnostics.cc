#include "codegen/compile/diagnostics.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/base/arch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

// These are values of nvrtcResult. They are repeated here, because only nvrtc.cc includes nvrtc.h.
enum NvrtcStatus { kOutOfMemory = 1, kInvalidOption = 5, kCompilation = 6, kBuiltins = 7 };
constexpr int kContext = 3;  // An excerpt has this many source lines on either side of an error.

struct Place {
  std::string file;
  int line;
  bool operator<(const Place& other) const {
    return std::pair(file, line) < std::pair(other.file, other.line);
  }
};

/// Reads the place from a log line such as "file(12): error: ..." or "file(12): catastrophic error: ...".
/// Returns false for any other line.
bool parse_place(llvm::StringRef line, Place& place) {
  const auto [where, what] = line.split("): ");
  if (!what.contains("error")) return false;
  const auto [file, number] = where.rsplit('(');
  int value = 0;
  if (number.empty() || number.getAsInteger(10, value)) return false;
  place = {file.trim().str(), value};
  return true;
}

std::string numbered_lines(llvm::StringRef text, const Place& place) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  text.split(lines, '\n');
  const int last = std::min(place.line + kContext, static_cast<int>(lines.size()));
  std::string result = place.file + ":\n";
  for (int i = std::max(1, place.line - kContext); i <= last; ++i) {
    result += llvm::formatv("{0} {1,5} | {2}\n", i == place.line ? ">" : " ", i, lines[i - 1]).str();
  }
  return result;
}

std::string excerpts(const CompileFailure& failure, const KernelSource& source,
                     const std::function<llvm::StringRef(llvm::StringRef)>& header) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  llvm::StringRef(failure.log).split(lines, '\n');
  std::set<Place> seen;
  std::string result;
  Place place;
  for (llvm::StringRef line : lines) {
    if (!parse_place(line, place) || !seen.insert(place).second) continue;
    const llvm::StringRef text =
        place.file == kProgramName ? llvm::StringRef(source.text) : header(place.file);
    if (!text.empty()) result += numbered_lines(text, place);
  }
  return result;
}

/// Returns the first error of a log without its place. This is the text after "file(2): error:" or after the
/// assembler's "ptxas fatal   :".
llvm::StringRef first_error(llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  log.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    const std::size_t at = line.find("error: ");
    if (at != llvm::StringRef::npos) return line.substr(at + 7).trim();
    if (line.consume_front("ptxas error") || line.consume_front("ptxas fatal")) return line.trim(" \t\r:");
  }
  return {};
}

std::pair<StatusCode, std::string> explain(const CompileFailure& failure) {
  const llvm::StringRef log = failure.log;
  if (log.contains("could not open source file") || log.contains("cannot open source file")) {
    return {StatusCode::FailedPrecondition,
            llvm::formatv("a header is not among the embedded ones: {0}; list it among the roots in "
                          "codegen/source/CMakeLists.txt, or include a header of kernels_templates",
                          first_error(log))};
  }
  if (failure.status == kInvalidOption &&
      (!is_known_arch(failure.archs, failure.arch) || log.contains("arch"))) {
    const StatusError unknown = unknown_arch(failure.compiler, failure.arch, failure.archs);
    return {unknown.code(), unknown.message()};
  }
  switch (failure.status) {
    case kOutOfMemory:
      return {StatusCode::ResourceExhausted, "the compiler ran out of memory; it needs about 300 MB"};
    case kInvalidOption:
      return {StatusCode::Internal,
              llvm::formatv("{0} refused an option: {1}", failure.compiler, log.trim())};
    case kBuiltins:
      return {StatusCode::Unavailable,
              llvm::formatv(
                  "{0} did not find libnvrtc-builtins of its own version: put that file beside libnvrtc, "
                  "or name a whole toolkit with MINUET_NVRTC",
                  failure.compiler)};
    case kCompilation:
      return {StatusCode::Internal, "the kernel does not compile: " + first_error(log).str()};
    default:
      return {StatusCode::Internal, "the compiler failed: " + failure.status_name};
  }
}

}  // namespace

bool is_known_arch(const std::vector<std::string>& known, llvm::StringRef arch) {
  return known.empty() ||
         llvm::any_of(known, [&](const std::string& one) { return capability(one) == capability(arch); });
}

StatusError unknown_arch(const std::string& compiler, llvm::StringRef arch,
                         const std::vector<std::string>& known) {
  return {
      StatusCode::Unimplemented,
      llvm::formatv("{0} cannot compile for {1}, only for {2}: install an NVRTC that can, and name it with "
                    "MINUET_NVRTC",
                    compiler, arch, llvm::join(known, ", "))};
}

StatusError compile_error(const CompileFailure& failure, const KernelSource& source,
                          const std::function<llvm::StringRef(llvm::StringRef)>& header) {
  const auto [code, sentence] = explain(failure);
  std::string detail =
      llvm::formatv(
          "kernel: {0}\nname: {1}\narch: {2}\ncompiler: {3}\nstatus: {4} ({5})\noptions: {6}\nrequest: {7}\n",
          source.display_name, source.name_expression, failure.arch, failure.compiler, failure.status_name,
          failure.status, llvm::join(failure.options, " "), failure.request_key)
          .str();
  detail += "log:\n" + failure.log;
  if (!failure.log.empty() && failure.log.back() != '\n') detail += '\n';
  const std::string lines = excerpts(failure, source, header);
  if (!lines.empty()) detail += "lines:\n" + lines;
  detail += llvm::formatv(
                "source:\n{0}\nto repeat: save the source and the line\n"
                "  void* const minuet_kernel = reinterpret_cast<void*>(&{3});\n"
                "as {1} and run, in Minuet's source folder\n"
                "  nvcc -cubin -I. -std=c++20 --fmad=false -arch={2} {1}\n",
                source.text, kProgramName, failure.arch, source.name_expression)
                .str();
  return StatusError(code, source.display_name + " for " + failure.arch + ": " + sentence, std::move(detail));
}

}  // namespace minuet
