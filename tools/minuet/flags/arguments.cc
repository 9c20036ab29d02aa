#include "tools/minuet/flags/arguments.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "tools/minuet/base/error.h"
#include "tools/minuet/flags/rules.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {
namespace {

constexpr const char* kExamples = R"(
Examples:
  minuet run sweep.bin --output features.npy --output-coordinates voxels.npy
  minuet run sweep.pcd.bin --columns 5 --voxel-size 0.05 --network sparseresnet21d
  minuet run --synthetic lidar --device cpu --json report.json
  minuet view sweep.pcd --output sweep.html
  minuet info
  minuet precompile --network minkunet42 --arch sm_80,sm_90a --output kernels
  minuet cache verify
`minuet COMMAND --help` describes a command. Exit codes: 0 done, 2 something that the user can fix, such as a
flag or an input (one sentence on stderr says what is wrong), 1 any other failure.)";

/// Returns the error for a command line that cannot be parsed. `why` is the reason, whose line breaks become
/// blanks.
llvm::Error not_understood(const CLI::App& app, std::string why) {
  for (char& c : why) c = c == '\n' ? ' ' : c;
  const char* const help = app.get_subcommands({}).empty()
                               ? "{0} ({1} --help lists the flags)"
                               : "{0} ({1} --help and {1} COMMAND --help list the flags)";
  return bad_input(help, why, app.get_name());
}

llvm::Error command_is_missing(llvm::ArrayRef<Command> commands) {
  std::string names;
  for (const Command& command : commands) {
    names += (names.empty() ? "" : &command == &commands.back() ? " or " : ", ") + std::string(command.name);
  }
  return bad_input("a command is missing: name {0}", names);
}

}  // namespace

llvm::Expected<bool> parse_flags(CLI::App& app, int count, const char* const* values) {
  refuse_empty_values(app);
  MINUET_TRY(check_values(app, count, values));
  try {
    app.parse(count, values);
  } catch (const CLI::ExtrasError&) {
    return not_understood(app, unknown_argument(app));
  } catch (const CLI::RequiredError& error) {
    // If a word remains, the user gave this word in place of a required subcommand.
    const bool is_unknown = !app.remaining(true).empty();
    return not_understood(app, is_unknown ? unknown_argument(app) : error.what());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return not_understood(app, error.what());
    std::ostringstream text;
    app.exit(error, text, text);
    llvm::outs() << text.str();
    return false;
  }
  return true;
}

llvm::Expected<const Command*> parse_arguments(llvm::ArrayRef<Command> commands, int count,
                                               const char* const* values, Arguments& arguments) {
  CLI::App app{
      "Minuet: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU, compiled at run time."};
  app.name("minuet");
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", [] { return "minuet " + version_text(); });
  for (const Command& command : commands)
    command.add(*app.add_subcommand(command.name, command.help), arguments);
  MINUET_ASSIGN(const bool is_parsed, parse_flags(app, count, values));
  if (!is_parsed) return nullptr;
  for (const Command& command : commands) {
    if (app.got_subcommand(command.name)) return &command;
  }
  return command_is_missing(commands);
}

}  // namespace minuet::tool
