// The command-line tool.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "codegen/base/c_locale.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/error.h"
#include "tools/minuet/library.h"

namespace minuet::tool {
namespace {

llvm::Error dispatch(int count, const char* const* values) {
  MINUET_ASSIGN(const Arguments arguments, parse_arguments(count, values));
  switch (arguments.command) {
    case Command::Run:
      return run_command(arguments);
    case Command::View:
      return view_command(arguments);
    case Command::Report:
      return report_command(arguments);
    case Command::Info:
      return info_command(arguments);
    case Command::Bench:
      return bench_command(arguments);
    case Command::Precompile:
      return precompile_command(arguments);
    case Command::Cache:
      return cache_command(arguments);
    case Command::Tune:
      return tune_command(arguments);
    case Command::Study:
      return study_command(arguments);
    case Command::Weights:
      return weights_command(arguments);
    case Command::None:
      break;
  }
  return llvm::Error::success();
}

int exit_code(llvm::Error error) {
  int code = 0;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase& info) {
    llvm::errs() << "minuet: " << escaped(info.message()) << "\n";
    // The log behind it, for whoever wants to see more than one sentence.
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

int run_tool(int count, const char* const* values) {
  try {
    const int code = exit_code(dispatch(count, values));
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
}  // namespace minuet::tool

int main(int count, char** values) {
  const minuet::CLocale c_locale;  // CLI11 reads numbers by strtold, and a preloaded library may set a locale
  minuet::tool::hold_standard_streams();
  (void)::signal(SIGXFSZ, SIG_IGN);  // past the limit of a file's size a write fails instead, and says so
  const int code = minuet::tool::run_tool(count, values);
  llvm::errs().clear_error();  // as above
  return code;
}
