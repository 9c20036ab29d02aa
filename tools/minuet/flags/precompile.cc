#include <CLI/CLI.hpp>

#include "llvm/Support/FileSystem.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

constexpr const char* kPrecompileFooter = R"(
Compiles every kernel that the networks may need, for any cloud, in helper programs: into the cache folder
and, with --output, into one bundle an architecture. Needs no GPU and no driver, only NVRTC. Run it again and
it goes on where it stopped; Ctrl-C leaves bundles with what is done.

With --weights the kernels are those of the network with that file: of a head too, whose width the file knows.
Without, a head has kernels where the network's JSON says how many "classes" it has.

With --tuned, or --tuning DIR, the kernels are also those that results of `minuet tune run` choose on GPUs of
each architecture (with --from the list has to name them), and the results go into the bundles: where those
are found, `minuet run --tuned` and minuet_context_load_tuning need no folder, and no compiler.

A bundle is used by MINUET_BUNDLE_PATH (files or folders, by colons), by minuet_context_add_bundle, or where
it lies beside libminuet. --arch compute_90 makes PTX, which the driver compiles for any GPU from sm_90 on, for
programs that ask for it (bundle_ptx of minuet_context_options). MINUET_RECORD=requests.jsonl makes any program
write down what no bundle had.

The JSON has `compiled`, `found`, `failed`, `kernels`, `bytes`, `seconds` and `bundles` [`arch`, `path`,
`sha256`, `bytes`]. Exit codes: 0 all kernels are there, 1 some failed, 2 a flag is at fault, 130 Ctrl-C.

Examples:
  minuet precompile                                     # MinkUNet42, fp16, sm_90a, into the cache folder
  minuet precompile --network minkunet42,sparseresnet21d --arch sm_80,sm_90a,sm_120 --output kernels
  minuet precompile --network minkunet42 --weights W.safetensors --output kernels
  minuet precompile --network minkunet42 --tuned --output kernels
  minuet precompile --from requests.jsonl --output kernels --json report.json)";

}  // namespace

void add_precompile(CLI::App& precompile, Arguments& arguments) {
  precompile.footer(kPrecompileFooter);
  add_networks(precompile, arguments)
      ->description("minkunet42, sparseresnet21d, JSON files; one or more, by commas; default: minkunet42");
  add_channels(precompile, arguments.network);
  add_weights(precompile, arguments.network);
  add_dtypes(precompile, arguments, "fp16");
  add_list(
      precompile, "--arch", arguments.archs, "sm_XX",
      "one or more architectures, by commas, or compute_XX; default: sm_90a, with --from those recorded");
  add_value(precompile, "--from", arguments.requests, "requests.jsonl",
            "a list that MINUET_RECORD made, instead of networks");
  precompile.add_flag("--tuned", arguments.tuned,
                      "what `minuet tune run` found, too: the kernels that it chooses, and the results");
  add_value(precompile, "--tuning", arguments.tuning, "DIR", "folder of those results; default: the cache's");
  add_value(precompile, "--output", arguments.output, "DIR",
            "folder for minuet-<arch>.bundle, made if need be");
  add_count(precompile, "-j,--jobs", arguments.jobs, 1, 1024,
            "helper programs; default: by cores and free memory");
  add_value(precompile, "--json", arguments.json, "FILE", "what was done, as JSON; - for stdout");
  precompile.add_flag("--list-kernels", arguments.list_kernels, "list every kernel");
  add_cache(precompile, arguments);
}

llvm::Error check_precompile(const Arguments& arguments) {
  if (!arguments.requests.empty() && (!arguments.networks.empty() || !arguments.network.channels.empty() ||
                                      !arguments.network.weights.empty() || !arguments.dtypes.empty())) {
    return bad_input(
        "--from excludes --network, --channels, --weights and --dtype: the list says what to compile");
  }
  if (!arguments.network.weights.empty() && arguments.networks.size() > 1) {
    return bad_input("--weights belongs to one network, and --network names {0}", arguments.networks.size());
  }
  if (!arguments.requests.empty() && !llvm::sys::fs::exists(arguments.requests)) {
    return bad_input("--from '{0}': there is no such file", arguments.requests);
  }
  const bool is_tuned = arguments.tuned || !arguments.tuning.empty();
  if (is_tuned && !arguments.requests.empty() && arguments.archs.empty()) {
    return bad_input("--tuned with --from needs --arch, which says whose results to take");
  }
  if (!arguments.tuning.empty() && !llvm::sys::fs::is_directory(arguments.tuning)) {
    return bad_input("--tuning '{0}' is not a folder", arguments.tuning);
  }
  for (const std::string& arch : arguments.archs) {
    if (arch.empty()) return bad_input("--arch has an empty name: name architectures such as sm_90a");
  }
  return check_weights_flags(arguments.network);
}

}  // namespace minuet::tool
