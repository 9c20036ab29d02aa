#include "tools/minuet/options_caches.h"

#include "llvm/Support/FileSystem.h"
#include "tools/minuet/error.h"
#include "tools/minuet/options_rules.h"
#include "tools/minuet/options_weights.h"

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

constexpr const char* kCacheFooter = R"(
Every action looks at the cache folder or, with --bundle, at a bundle. KEY is the start of an entry's key, or
a kernel's name. --json prints JSON instead of a table.

Examples:
  minuet cache list
  minuet cache inspect gather-f16 --bundle kernels/minuet-sm_90a.bundle
  minuet cache extract 3fa9 --output gather.cubin          # for cuobjdump and nvdisasm
  minuet cache verify --json                               # exit code 1 where an entry is damaged
  minuet cache prune --max-bytes 100000000)";

}  // namespace

void add_cache(CLI::App& app, Arguments& arguments) {
  app.add_option("--cache", arguments.cache,
                 "kernel cache folder; default: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet, ~/.cache/minuet")
      ->type_name("DIR");
}

void add_device(CLI::App& app, DeviceChoice& choice) {
  app.add_option("--device", choice.name, "cuda:N or cpu; default: cuda:0 where it is usable, else cpu")
      ->type_name("NAME");
  app.add_option("--threads", choice.threads,
                 "threads of the CPU device, at most one for each CPU that this process may use; default: "
                 "one for each")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(1, kMostThreads));
}

void add_channels(CLI::App& app, Arguments& arguments) {
  app.add_option("--channels", arguments.network.channels, "other widths, as many as the network lists")
      ->transform(kDecimal)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("C0,C1");
}

CLI::Option* add_networks(CLI::App& app, Arguments& arguments) {
  return app.add_option("--network", arguments.networks, "one or more, by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME|FILE");
}

void add_precompile(CLI::App& precompile, Arguments& arguments) {
  precompile.footer(kPrecompileFooter);
  add_networks(precompile, arguments)
      ->description("minkunet42, sparseresnet21d, JSON files; one or more, by commas; default: minkunet42");
  add_channels(precompile, arguments);
  add_weights(precompile, arguments.network);
  precompile.add_option("--dtype", arguments.dtypes, "one or more of fp32, tf32, fp16, bf16; default: fp16")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("TYPE");
  precompile
      .add_option("--arch", arguments.archs,
                  "one or more architectures, by commas, or compute_XX; default: sm_90a, with --from those "
                  "recorded")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("sm_XX");
  precompile.add_option("--from", arguments.requests, "a list that MINUET_RECORD made, instead of networks")
      ->type_name("requests.jsonl");
  precompile.add_flag("--tuned", arguments.tuned,
                      "what `minuet tune run` found, too: the kernels that it chooses, and the results");
  precompile.add_option("--tuning", arguments.tuning, "folder of those results; default: the cache's")
      ->type_name("DIR");
  precompile.add_option("--output", arguments.output, "folder for minuet-<arch>.bundle, made if need be")
      ->type_name("DIR");
  precompile.add_option("-j,--jobs", arguments.jobs, "helper programs; default: by cores and free memory")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(1, 1024));
  precompile.add_option("--json", arguments.json, "what was done, as JSON; - for stdout")->type_name("FILE");
  precompile.add_flag("--list-kernels", arguments.list_kernels, "list every kernel");
  add_cache(precompile, arguments);
}

void add_cache_command(CLI::App& cache, Arguments& arguments) {
  cache.footer(kCacheFooter);
  cache.require_subcommand(1);
  struct Row {
    CacheAction action;
    const char* name;
    const char* help;
    bool key;
  };
  static constexpr Row kRows[] = {
      {CacheAction::List, "list", "Every kernel: name, architecture, bytes, age, key", false},
      {CacheAction::Inspect, "inspect", "One kernel: registers, memory, compiler, log, keys", true},
      {CacheAction::Extract, "extract", "One kernel's cubin, or PTX, into a file", true},
      {CacheAction::Verify, "verify", "Read and check every entry; name each damaged one", false},
      {CacheAction::Prune, "prune", "Remove the least recently used entries and orphans", false},
      {CacheAction::Stats, "stats", "Entries and bytes, by architecture and compiler", false}};
  for (const Row& row : kRows) {
    CLI::App* const action = cache.add_subcommand(row.name, row.help);
    action->callback([&arguments, which = row.action] { arguments.action = which; });
    add_cache(*action, arguments);
    action->add_flag("--json", arguments.to_json, "JSON instead of a table");
    if (row.action != CacheAction::Prune)
      action->add_option("--bundle", arguments.bundle, "a bundle instead of the folder")->type_name("FILE");
    if (row.key) action->add_option("KEY", arguments.key, "start of a key, or a kernel's name")->required();
    if (row.action == CacheAction::Extract)
      action->add_option("--output", arguments.output, "file for the cubin")->type_name("FILE")->required();
    if (row.action == CacheAction::Prune) {
      action
          ->add_option("--max-bytes", arguments.most_bytes,
                       "bytes that may stay; default: MINUET_CACHE_MAX_BYTES, else 1 GiB")
          ->transform(kDecimal)
          ->check(kWholeNumber);
    }
  }
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
    return bad_input("--tuning '{0}' is no folder", arguments.tuning);
  }
  for (const std::string& arch : arguments.archs) {
    if (arch.empty()) return bad_input("--arch has an empty name: name architectures such as sm_90a");
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
