// `minuet precompile` compiles networks' kernels into the cache folder and into bundles. It needs no GPU.
#include <map>
#include <optional>

#include "codegen/base/number_text.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "minuet/tuning.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/interrupt.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::tool {
namespace {

struct PrecompileWork {
  std::optional<Progress> bar;
  std::vector<KernelFacts> kernels;
  std::vector<std::string> failures;
  llvm::json::Array bundles;
  std::vector<std::string> bundle_lines;
  /// Maps the name of each network whose head is left out to a sentence that says so (missing_head_text()).
  std::map<std::string, std::string> missing_heads;
};

void on_step(const minuet_precompile_step* step, void* user) {
  PrecompileWork& progress = *static_cast<PrecompileWork*>(user);
  if (step->kernel) {
    progress.kernels.emplace_back(*step->kernel);
  } else {
    const std::string who = std::string(step->name) + " for " + step->arch;
    const std::string why = step->error;
    progress.failures.push_back(why.find(who) == std::string::npos ? who + ": " + why : why);
  }
  // A kernel that is found in the cache takes no time, so it must not count in the estimate of the time left.
  const bool took_time = !step->kernel || llvm::StringRef(step->kernel->origin) == "compiled";
  if (took_time) progress.bar->step(step->done, step->total);
}

void on_bundle(const minuet_bundle_info* bundle, void* user) {
  PrecompileWork& progress = *static_cast<PrecompileWork*>(user);
  progress.bundles.push_back(llvm::json::Object{{"arch", std::string(bundle->arch)},
                                                {"path", std::string(bundle->path)},
                                                {"sha256", std::string(bundle->sha256)},
                                                {"bytes", bundle->bytes},
                                                {"kernels", bundle->kernels}});
  progress.bundle_lines.push_back(llvm::formatv("{0}: {1} kernels, {2} bytes, sha256 {3}", bundle->path,
                                                bundle->kernels, bundle->bytes, bundle->sha256)
                                      .str());
}

/// Adds a plan that has the kernels with which the tool makes voxels, for networks that take voxels of
/// points.
llvm::Error add_voxelizer(minuet_context* context, std::vector<PlanHandle>& networks) {
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = kVoxelizerNetwork;
  options.dtype = MINUET_F32;
  minuet_plan* plan = nullptr;
  MINUET_TRY(check(minuet_plan_create_network(context, &options, &plan)));
  networks.emplace_back(plan);
  return llvm::Error::success();
}

/// Opens every network that the flags name in every dtype that they name.
llvm::Expected<std::vector<PlanHandle>> open_networks(minuet_context* context, const Arguments& arguments,
                                                      std::map<std::string, std::string>& missing_heads) {
  std::vector<PlanHandle> networks;
  if (!arguments.requests.empty()) return networks;
  std::vector<std::string> names = arguments.networks, dtypes = arguments.dtypes;
  if (names.empty()) names.push_back("minkunet42");
  if (dtypes.empty()) dtypes.push_back("fp16");
  bool takes_voxels = false;
  for (const std::string& name : names) {
    MINUET_ASSIGN(const std::optional<OwnVoxels> own, find_own_voxels(name));
    for (const std::string& text : dtypes) {
      MINUET_ASSIGN(const minuet_dtype dtype, dtype_for(text, /*is_cpu=*/false));
      NetworkChoice choice = arguments.network;
      choice.network = name;
      minuet_plan_info info;
      MINUET_ASSIGN(PlanHandle network, open_network(context, choice, dtype, info));
      networks.push_back(std::move(network));
      takes_voxels |= !own && info.ndim == 3;
      if (info.missing_head != 0) missing_heads.emplace(info.name, missing_head_text(info));
    }
  }
  if (takes_voxels) MINUET_TRY(add_voxelizer(context, networks));
  return networks;
}

llvm::json::Value to_json(PrecompileWork& progress, const minuet_precompile_result& result) {
  llvm::json::Array failures;
  for (const std::string& failure : progress.failures) failures.push_back(llvm::json::fixUTF8(failure));
  llvm::json::Array missing_heads;
  for (const auto& [network, sentence] : progress.missing_heads) missing_heads.push_back(network);
  return llvm::json::Object{{"missing_heads", std::move(missing_heads)},
                            {"compiled", result.compiled},
                            {"found", result.found},
                            {"failed", result.failed},
                            {"kernels", result.kernels},
                            {"bytes", result.bytes},
                            {"seconds", result.seconds},
                            {"bundles", std::move(progress.bundles)},
                            {"failures", std::move(failures)}};
}

/// Opens the file of --json before any work is done. Returns nothing if --json is absent or "-" (stdout).
llvm::Expected<std::optional<OutputFile>> open_json(const Arguments& arguments) {
  std::optional<OutputFile> file;
  if (arguments.json.empty() || arguments.json == "-") return file;
  std::vector<NamedFile> inputs = {{"--from", arguments.requests},
                                   {"--weights", arguments.network.weights},
                                   {"--weights-map", arguments.network.weights_map}};
  for (const std::string& network : arguments.networks) inputs.push_back({"--network", network});
  if (!arguments.output.empty()) {
    const llvm::StringRef folder = llvm::sys::path::parent_path(arguments.json);
    // The file of --json may be in the folder for bundles (--output), which is created here if --json is in a
    // folder that does not exist. Errors are ignored here, because the library reports those about the folder
    // for bundles.
    if (!folder.empty() && !llvm::sys::fs::exists(folder))
      (void)llvm::sys::fs::create_directories(arguments.output, true, llvm::sys::fs::all_all);
    bool is_bundles = false;
    (void)llvm::sys::fs::equivalent(folder.empty() ? "." : folder, arguments.output, is_bundles);
    if (is_bundles && extension_of(arguments.json) == ".bundle") {
      return bad_input("--json '{0}' would overwrite a bundle: name a file that ends in .json",
                       arguments.json);
    }
  }
  MINUET_TRY(check_distinct({{"--json", arguments.json}}, inputs));
  MINUET_ASSIGN(OutputFile opened, OutputFile::open(arguments.json));
  file.emplace(std::move(opened));
  return file;
}

void print_summary(const Arguments& arguments, const PrecompileWork& progress,
                   const minuet_precompile_result& result, const std::string& folder) {
  llvm::raw_ostream& out = arguments.json == "-" ? llvm::errs() : llvm::outs();
  if (arguments.list_kernels || arguments.output.empty()) print_kernels(progress.kernels, out);
  for (const std::string& failure : progress.failures) out << "failed: " << failure << "\n";
  out << llvm::formatv("\n{0} kernels, {1} bytes in {2:f1} s: {3} compiled, {4} found, {5} failed\n",
                       result.kernels, result.bytes, real(result.seconds), result.compiled, result.found,
                       result.failed);
  for (const auto& [network, sentence] : progress.missing_heads) out << sentence << "\n";
  for (const std::string& line : progress.bundle_lines) out << line << "\n";
  if (!folder.empty()) out << "cache folder: " << folder << "\n";
}

minuet_status precompile_by(const Arguments& arguments, minuet_context* context,
                            const minuet_precompile_options& options, minuet_precompile_result& result) {
  if (!arguments.tuned && arguments.tuning.empty()) return minuet_precompile(context, &options, &result);
  llvm::SmallString<256> folder(arguments.tuning);
  if (!folder.empty()) (void)llvm::sys::fs::make_absolute(folder);
  return minuet_precompile_tuned(context, &options, folder.empty() ? nullptr : folder.c_str(), &result);
}

}  // namespace

llvm::Error precompile_command(const Arguments& arguments) {
  MINUET_TRY(check_precompile(arguments));
  if (arguments.output == "-") {
    return bad_input("--output takes a folder for bundles, which cannot be written to stdout: name a folder");
  }
  MINUET_ASSIGN(std::optional<OutputFile> json, open_json(arguments));
  MINUET_ASSIGN(const ContextHandle context,
                open_context({arguments.cache, /*trace=*/false, /*must_jit=*/true}));
  const std::string folder = cache_folder(context.get());
  if (folder.empty() && arguments.output.empty()) {
    return bad_input(
        "there is no cache folder to store the kernels in (the warning above says why): name one with "
        "--cache, or name a folder for bundles with --output");
  }
  std::map<std::string, std::string> missing_heads;
  MINUET_ASSIGN(const std::vector<PlanHandle> networks,
                open_networks(context.get(), arguments, missing_heads));
  std::vector<minuet_plan*> handles;
  handles.reserve(networks.size());
  for (const PlanHandle& network : networks) handles.push_back(network.get());
  std::vector<const char*> archs;
  archs.reserve(arguments.archs.size() + 1);
  for (const std::string& arch : arguments.archs) archs.push_back(arch.c_str());
  if (archs.empty() && arguments.requests.empty()) archs.push_back("sm_90a");

  PrecompileWork progress;
  progress.missing_heads = std::move(missing_heads);
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.plans = handles.empty() ? nullptr : handles.data();
  options.plan_count = static_cast<int32_t>(handles.size());
  options.requests_path = arguments.requests.empty() ? nullptr : arguments.requests.c_str();
  options.archs = archs.empty() ? nullptr : archs.data();
  options.arch_count = static_cast<int32_t>(archs.size());
  options.jobs = arguments.jobs;
  options.output_directory = arguments.output.empty() ? nullptr : arguments.output.c_str();
  options.step = on_step;
  options.bundle = on_bundle;
  options.cancelled = [](void*) { return static_cast<int32_t>(is_interrupted()); };
  options.user = &progress;
  watch_interrupts();
  progress.bar.emplace("compiling kernels");
  minuet_precompile_result result = {};
  result.struct_size = sizeof(result);
  const minuet_status status = precompile_by(arguments, context.get(), options, result);
  progress.bar.reset();
  // The library has begun no kernel if the flags are invalid or NVRTC is missing.
  const bool has_begun = result.kernels > 0;
  if (has_begun) {
    print_summary(arguments, progress, result, folder);
    const std::string text = json_text(to_json(progress, result));
    if (json) MINUET_TRY(json->write(text));
    if (arguments.json == "-") llvm::outs() << text;
  }
  if (status == MINUET_CANCELLED) return interrupted("interrupted; run the same command again to continue");
  if (!has_begun && status == MINUET_OK)
    return bad_input("--from '{0}' lists no kernels: name another list", arguments.requests);
  if (!has_begun) return check(status);
  return status == MINUET_OK ? llvm::Error::success() : broken(last_error_text());
}

}  // namespace minuet::tool
