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
    // The detail is the log of the compiler or driver, which may be long.
    const char* verbose = std::getenv("MINUET_VERBOSE");
    if (verbose && llvm::StringRef(verbose) == "1") llvm::errs() << last_error_detail();
    const std::error_code kind = info.convertToErrorCode();
    code = kind == std::make_error_code(std::errc::invalid_argument) ? kExitBadInput
           : kind == std::make_error_code(std::errc::interrupted)    ? kExitInterrupted
                                                                     : kExitBroken;
  });
  return code;
}

/// Opens /dev/null for each standard stream that the caller closed. Writing to it fails, and no file that is
/// opened later gets the stream's number.
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
    llvm::outs().clear_error();  // otherwise raw_ostream aborts the process on destruction
    llvm::errs() << "minuet: cannot write to the standard output\n";
    return kExitBroken;
  } catch (const std::bad_alloc&) {
    llvm::errs() << "minuet: there is not enough memory for this cloud\n";
    return kExitBadInput;
  } catch (const std::exception& error) {
    llvm::errs() << "minuet: " << error.what() << "\n";
    return kExitBroken;
  }
}

}  // namespace

int run_program(Program program, int count, const char* const* values) {
  const CLocale c_locale;  // CLI11 parses numbers with strtold, and a preloaded library may set a locale
  hold_standard_streams();
  (void)::signal(SIGXFSZ, SIG_IGN);  // a write past the file size limit then fails with an error
  const int code = exit_code_of(program, count, values);
  llvm::errs().clear_error();  // otherwise raw_ostream aborts the process on destruction
  return code;
}

}  // namespace minuet::tool
