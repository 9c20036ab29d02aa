// `minuet quantize` finds how a network computes in 8 bits on given clouds, and writes its description and
// weights.
#include <optional>

#include "codegen/base/json_text.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/commands/quantize_report.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/quantization.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/tensors.h"
#include "tools/minuet/library/voxelizer.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

/// Returns the path of the description that belongs to --output.
std::string description_path(const std::string& output) {
  llvm::SmallString<128> path(output);
  llvm::sys::path::replace_extension(path, ".json");
  return path.str().str();
}

/// Reads the clouds as the network takes them, and sets its shape in `network` and the grid of its voxels.
llvm::Expected<std::vector<VoxelCloud>> read_clouds(const Arguments& arguments, const Session& session,
                                                    minuet_dtype dtype, NetworkChoice& network,
                                                    std::optional<Grid>& grid) {
  const BenchFiles files{bench_data_folder(arguments.data), arguments.file_voxel_size, arguments.file_columns,
                         !arguments.range.empty()};
  MINUET_ASSIGN(const std::vector<BenchCloud> clouds, open_bench_clouds(arguments.clouds, files));
  MINUET_ASSIGN(const std::optional<OwnVoxels> own, find_own_voxels(network.network));
  MINUET_ASSIGN(grid, use_grid(network, arguments.range, arguments.file_voxel_size));
  minuet_plan_info info;
  MINUET_ASSIGN(const PlanHandle plan, open_network(session.context.get(), network, dtype, info));
  MINUET_ASSIGN(const std::vector<minuet_tensor_info> inputs, query_inputs(plan.get()));
  const size_t own_inputs = inputs.size() - (takes_points(inputs) ? kPointInputs : 0);
  if (info.ndim != 3 || own_inputs != 1) {
    return bad_input(
        "the network '{0}' has {1} dimensions and {2}, but a cloud of points is for networks of three "
        "dimensions and one input",
        network.network, info.ndim, counted(static_cast<int64_t>(own_inputs), "input"));
  }
  const Voxelizer voxelizer = voxelizer_of(session);
  std::vector<VoxelCloud> all;
  for (const BenchCloud& cloud : clouds_in(clouds, grid, info.in_channels, own)) {
    for (const std::string& note : cloud.notes) llvm::errs() << "minuet: " << note << "\n";
    MINUET_ASSIGN(VoxelCloud voxels, in_file(cloud.name, make_unturned(cloud, voxelizer)));
    if (voxels.channels != info.in_channels) {
      return bad_input(
          "the network takes {0} input channels, but the cloud '{1}' gives {2}: give --in-channels {2} if "
          "the weights are for {2} channels or random",
          info.in_channels, cloud.name, voxels.channels);
    }
    all.push_back(std::move(voxels));
  }
  if (llvm::all_of(all, [](const VoxelCloud& voxels) { return voxels.count() == 0; })) {
    return bad_input("no cloud has a voxel, so that there are no ranges: give clouds with points{0}",
                     arguments.range.empty() ? "" : " within --range");
  }
  return all;
}

/// Opens the file, or returns nothing if the path is empty.
llvm::Expected<std::optional<OutputFile>> open_optional(const std::string& path) {
  std::optional<OutputFile> file;
  if (path.empty()) return file;
  MINUET_ASSIGN(OutputFile opened, OutputFile::open(path));
  file.emplace(std::move(opened));
  return file;
}

/// Returns the page with the errors layer by layer.
llvm::Expected<std::string> page_of(const std::string& description, const llvm::json::Object& report) {
  const std::string name = llvm::json::fixUTF8(llvm::sys::path::filename(description));
  MINUET_ASSIGN(llvm::json::Object document,
                document_of(name, llvm::json::Value(llvm::json::Object(report))));
  const std::string title = text_or_empty(document, "title");
  llvm::json::Array documents;
  documents.push_back(std::move(document));
  return report_page(title, version_text(), std::move(documents));
}

/// Writes the weights that the network uses as `minuet weights convert` does.
llvm::Error write_weights(const NetworkChoice& network, const std::string& path, OutputFile& file) {
  NetworkOptions filled;
  MINUET_TRY(fill_network_options(network, MINUET_F32, filled));
  llvm::Error error = check_writing(minuet_weights_convert(&filled.options, file.temporary_path().c_str()));
  return in_network(network, about_file(file.temporary_path(), path, std::move(error)));
}

}  // namespace

llvm::Error quantize_command(const Arguments& arguments) {
  MINUET_TRY(check_quantize(arguments));
  const bool has_weights_output = extension_of(arguments.output) == ".safetensors";
  const std::string description = description_path(arguments.output);
  std::vector<NamedFile> inputs{{"--weights", arguments.network.weights},
                                {"--weights-map", arguments.network.weights_map},
                                {"NETWORK", arguments.network.network}};
  for (const std::string& cloud : arguments.clouds) inputs.push_back({"--clouds", cloud});
  std::vector<NamedFile> outputs{
      {"--output", description}, {"--json", arguments.json}, {"--page", arguments.page}};
  if (has_weights_output) outputs.push_back({"--output", arguments.output});
  MINUET_TRY(check_distinct(outputs, inputs));
  MINUET_ASSIGN(std::optional<OutputFile> weights_file,
                open_optional(has_weights_output ? arguments.output : ""));
  MINUET_ASSIGN(OutputFile description_file, OutputFile::open(description));
  MINUET_ASSIGN(std::optional<OutputFile> json_file,
                open_optional(arguments.json == "-" ? "" : arguments.json));
  MINUET_ASSIGN(std::optional<OutputFile> page_file, open_optional(arguments.page));

  MINUET_ASSIGN(const Session session, open_session({arguments.cache}, arguments.device));
  MINUET_ASSIGN(const minuet_dtype dtype, dtype_for(arguments.dtype, session.facts.is_cpu()));
  QuantizationChoice choice;
  MINUET_ASSIGN(choice.method, parse_range_method(arguments.calibration));
  choice.percentile = arguments.percentile.value_or(kUsualPercentile);
  choice.error_budget = arguments.error_budget;
  choice.floating = arguments.floating;
  NetworkChoice network = arguments.network;
  std::optional<Grid> grid;
  MINUET_ASSIGN(const std::vector<VoxelCloud> clouds, read_clouds(arguments, session, dtype, network, grid));
  std::optional<Progress> progress("quantizing the network");
  MINUET_ASSIGN(const QuantizationReport report,
                quantize_network(session, dtype, network, clouds, choice,
                                 [&](const std::string& what) { progress->say(what); }));
  progress.reset();

  if (weights_file) {
    MINUET_TRY(write_weights(network, arguments.output, *weights_file));
    MINUET_TRY(weights_file->keep());
  }
  MINUET_TRY(description_file.write(report.description));
  const QuantizedNetwork quantized{arguments, session.facts, dtype, description, grid};
  const llvm::json::Object facts = quantize_json(quantized, report);
  if (page_file) {
    MINUET_ASSIGN(const std::string page, page_of(description, facts));
    MINUET_TRY(page_file->write(page));
  }
  const std::string text = json_text(llvm::json::Object(facts));
  if (json_file) MINUET_TRY(json_file->write(text));
  if (arguments.json == "-") {
    llvm::outs() << text;
    return llvm::Error::success();
  }
  print_quantization(report, llvm::outs());
  llvm::outs() << "written: " << description;
  for (const std::string& path : {weights_file ? arguments.output : "", arguments.json, arguments.page}) {
    if (!path.empty()) llvm::outs() << ", " << path;
  }
  llvm::outs() << "\nrun it with: " << run_command_text(quantized) << "\n";
  return llvm::Error::success();
}

}  // namespace minuet::tool
