// Runs the command-line tool and defines the table of its commands.
#include "tools/minuet/base/error.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/program.h"

namespace minuet::tool {
namespace {

constexpr Command kCommands[] = {
    {"run", "Run a network over a point cloud", add_run, run_command},
    {"view", "Show a cloud, its voxels and neighbours as an HTML page", add_view, view_command},
    {"report", "Show result files as an HTML page of plots and tables", add_report, report_command},
    {"info", "Show devices, driver, NVRTC, LLVM, cache folder, and what is missing", add_info, info_command},
    {"bench", "Measure networks on many clouds, or on your own", add_bench, bench_command},
    {"precompile", "Compile networks' kernels, without a GPU", add_precompile, precompile_command},
    {"cache", "Inspect, check and prune the kernel cache, or inspect a bundle", add_cache_actions,
     run_action},
    {"tune", "Measure which kernels are fastest, and show the results", add_tune_actions, run_action},
    {"quantize", "Let a network compute in 8 bits, and show its errors", add_quantize, quantize_command},
    {"weights", "Convert weights files of other engines", add_weights_command, weights_command},
};

llvm::Error run_command_line(int count, const char* const* values) {
  Arguments arguments;
  MINUET_ASSIGN(const Command* const command, parse_arguments(kCommands, count, values, arguments));
  return command ? command->run(arguments) : llvm::Error::success();
}

}  // namespace
}  // namespace minuet::tool

int main(int count, char** values) {
  return minuet::tool::run_program(minuet::tool::run_command_line, count, values);
}
