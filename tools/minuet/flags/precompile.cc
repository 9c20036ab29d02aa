#include <CLI/CLI.hpp>

#include "llvm/Support/FileSystem.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

constexpr const char* kPrecompileFooter = R"(
Compiles every kernel that the networks may need, for any cloud, in helper programs. The kernels go into the
cache folder and, with --output, into one bundle for each architecture. This needs NVRTC, but no GPU and no
driver. The same command continues where it stopped before; Ctrl-C leaves bundles of the finished kernels.

With --weights, the kernels are those of the network with that file, and of its head, whose width the file
gives. Without --weights, a head has kernels if the network's JSON gives the number of its "classes".

With --tuned, or --tuning DIR, the kernels that results of `minuet tune run` choose on GPUs of each
architecture are compiled too (with --from, the list must name them, except those for the gradients of
weights), and the results go into the bundles. With these bundles, `minuet run --tuned` and
minuet_context_load_tuning need no folder and no compiler.

A bundle is used if MINUET_BUNDLE_PATH (files or folders, separated by colons) or minuet_context_add_bundle
names it, if it is beside libminuet, or if minuet_context_add_bundle_memory gives its bytes. --arch compute_90
makes PTX, which the driver compiles for any GPU from sm_90 on, for programs that ask for it (bundle_ptx of
minuet_context_options). With MINUET_RECORD=requests.jsonl, any program records the kernels that no bundle
had, also those of training plans, which have no other way into bundles.

The JSON has `compiled`, `found`, `failed`, `kernels`, `bytes`, `seconds` and `bundles` [`arch`, `path`,
`sha256`, `bytes`]. Exit codes: 0 all kernels are present, 1 some failed, 2 a flag is wrong, 130 Ctrl-C.

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
      ->description(
          "one or more shipped networks (minuet run --list-networks) and JSON files, separated by commas; "
          "default: "
          "minkunet42");
  add_channels(precompile, arguments.network);
  add_weights(precompile, arguments.network);
  add_dtypes(precompile, arguments, "fp16");
  add_list(precompile, "--arch", arguments.archs, "sm_XX",
           "one or more GPU architectures, sm_XX or (for PTX) compute_XX, separated by commas; default: "
           "sm_90a, or with --from those of the list");
  add_value(precompile, "--from", arguments.requests, "requests.jsonl",
            "compile the kernels in this list, which MINUET_RECORD wrote, instead of those of networks");
  precompile.add_flag("--tuned", arguments.tuned,
                      "also compile the kernels that results of `minuet tune run` choose, and put the "
                      "results into the bundles");
  add_value(precompile, "--tuning", arguments.tuning, "DIR",
            "folder of results of `minuet tune run`; default: the one in the kernel cache folder");
  add_value(precompile, "--output", arguments.output, "DIR",
            "folder for the minuet-<arch>.bundle files; created if missing");
  add_count(
      precompile, "-j,--jobs", arguments.jobs, 1, 1024,
      "number of helper programs that compile at the same time; default: as cores and free memory allow");
  add_value(precompile, "--json", arguments.json, "FILE", "write a report as JSON; - writes it to stdout");
  precompile.add_flag("--list-kernels", arguments.list_kernels, "list every kernel");
  add_cache(precompile, arguments);
}

llvm::Error check_precompile(const Arguments& arguments) {
  if (!arguments.requests.empty() && (!arguments.networks.empty() || !arguments.network.channels.empty() ||
                                      !arguments.network.weights.empty() || !arguments.dtypes.empty())) {
    return bad_input(
        "--from excludes --network, --channels, --weights and --dtype, because its list says what to "
        "compile: omit them");
  }
  if (!arguments.network.weights.empty() && arguments.networks.size() > 1) {
    return bad_input("--weights belongs to one network, but --network names {0}: name only one",
                     arguments.networks.size());
  }
  if (!arguments.requests.empty() && !llvm::sys::fs::exists(arguments.requests)) {
    return bad_input("--from '{0}': there is no such file", arguments.requests);
  }
  const bool is_tuned = arguments.tuned || !arguments.tuning.empty();
  if (is_tuned && !arguments.requests.empty() && arguments.archs.empty()) {
    return bad_input("--tuned with --from needs --arch, which says for which GPUs to use results");
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
