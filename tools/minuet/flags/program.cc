#include "tools/minuet/flags/program.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "codegen/base/c_locale.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {
namespace {

int exit_code(llvm::Error error) {
  int code = 0;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase& info) {
    llvm::errs() << "minuet: " << escaped(info.message()) << "\n";
    // The compiler's or driver's log, which is more than one sentence.
    const char* verbose = std::getenv("MINUET_VERBOSE");
    if (verbose && llvm::StringRef(verbose) == "1") llvm::errs() << last_error_detail();
    const std::error_code kind = info.convertToErrorCode();
    code = kind == std::make_error_code(std::errc::invalid_argument) ? kExitBadInput
           : kind == std::make_error_code(std::errc::interrupted)    ? kExitInterrupted
                                                                     : kExitBroken;
  });
  return code;
}

/// A stream that the caller has closed fails when it is written, and no file that is opened gets its number.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);  // takes the lowest number
  }
}

int exit_code_of(Program program, int count, const char* const* values) {
  try {
    const int code = exit_code(program(count, values));
    llvm::outs().flush();
    if (!llvm::outs().has_error()) return code;
    llvm::outs().clear_error();  // else raw_ostream ends the process its own way
    llvm::errs() << "minuet: the standard output cannot be written\n";
    return kExitBroken;
  } catch (const std::bad_alloc&) {
    llvm::errs() << "minuet: the machine's memory does not hold this cloud\n";
    return kExitBadInput;
  } catch (const std::exception& error) {
    llvm::errs() << "minuet: " << error.what() << "\n";
    return kExitBroken;
  }
}

}  // namespace

int run_program(Program program, int count, const char* const* values) {
  const CLocale c_locale;  // CLI11 reads numbers by strtold, and a preloaded library may set a locale
  hold_standard_streams();
  (void)::signal(SIGXFSZ, SIG_IGN);  // past the limit of a file's size a write fails instead, and says so
  const int code = exit_code_of(program, count, values);
  llvm::errs().clear_error();  // else raw_ostream ends the process its own way
  return code;
}

}  // namespace minuet::tool
