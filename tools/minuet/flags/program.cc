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
    // last_error_detail() is the log of the compiler or driver. It may be long, so it is printed only on
    // request.
    const char* verbose = std::getenv("MINUET_VERBOSE");
    if (verbose && llvm::StringRef(verbose) == "1") llvm::errs() << last_error_detail();
    const std::error_code kind = info.convertToErrorCode();
    code = kind == std::make_error_code(std::errc::invalid_argument) ? kExitBadInput
           : kind == std::make_error_code(std::errc::interrupted)    ? kExitInterrupted
                                                                     : kExitBroken;
  });
  return code;
}

/// Opens /dev/null for reading in place of each standard stream that is closed at the start of the program.
/// Writing to the stream then fails, and no file that is opened later gets its number.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The call of open() takes the lowest free number, which is that of the stream.
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);
  }
}

int exit_code_of(Program program, int count, const char* const* values) {
  try {
    const int code = exit_code(program(count, values));
    llvm::outs().flush();
    if (!llvm::outs().has_error()) return code;
    llvm::outs().clear_error();  // With the error set, the destructor of raw_ostream would abort the process.
    llvm::errs() << "minuet: cannot write to the standard output\n";
    return kExitBroken;
  } catch (const std::bad_alloc&) {
    llvm::errs() << "minuet: there is not enough memory for this cloud: use a smaller one\n";
    return kExitBadInput;
  } catch (const std::exception& error) {
    llvm::errs() << "minuet: " << error.what() << "\n";
    return kExitBroken;
  }
}

}  // namespace

int run_program(Program program, int count, const char* const* values) {
  // CLI11 parses numbers with strtold(), whose result depends on the locale, and a preloaded library may set
  // a locale.
  const CLocale c_locale;
  hold_standard_streams();
  // With SIGXFSZ ignored, a write past the file size limit fails with an error instead of ending the process.
  (void)::signal(SIGXFSZ, SIG_IGN);
  const int code = exit_code_of(program, count, values);
  llvm::errs().clear_error();  // With the error set, the destructor of raw_ostream would abort the process.
  return code;
}

}  // namespace minuet::tool
