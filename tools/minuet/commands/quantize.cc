// `minuet quantize` finds how a network computes in 8 bits on given clouds, and writes its description and
// weights.
#include <cmath>
#include <optional>

#include "codegen/base/number_text.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/quantization.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/tensors.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::tool {
namespace {

constexpr int kErrorDigits = 4;

/// Returns the path of the description that belongs to --output.
std::string description_path(const std::string& output) {
  llvm::SmallString<128> path(output);
  llvm::sys::path::replace_extension(path, ".json");
  return path.str().str();
}

/// Reads the clouds as the network takes them, and sets its shape in `network`.
llvm::Expected<std::vector<VoxelCloud>> read_clouds(const Arguments& arguments, const Session& session,
                                                    minuet_dtype dtype, NetworkChoice& network) {
  const BenchFiles files{bench_data_folder(arguments.data), arguments.file_voxel_size, arguments.file_columns,
                         !arguments.range.empty()};
  MINUET_ASSIGN(const std::vector<BenchCloud> clouds, open_bench_clouds(arguments.clouds, files));
  MINUET_ASSIGN(const std::optional<OwnVoxels> own, find_own_voxels(network.network));
  MINUET_ASSIGN(const std::optional<Grid> grid,
                use_grid(network, arguments.range, arguments.file_voxel_size));
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
    all.push_back(std::move(voxels));
  }
  if (llvm::all_of(all, [](const VoxelCloud& voxels) { return voxels.count() == 0; })) {
    return bad_input("no cloud has a voxel, so that there are no ranges: give clouds with points{0}",
                     arguments.range.empty() ? "" : " within --range");
  }
  return all;
}

llvm::json::Value number_json(double number) {
  return std::isfinite(number) ? llvm::json::Value(number) : llvm::json::Value(nullptr);
}

llvm::json::Object difference_json(const Difference& difference) {
  return llvm::json::Object{{"relative_error", number_json(difference.relative())},
                            {"cosine", number_json(difference.cosine())}};
}

llvm::json::Value report_json(const Arguments& arguments, const QuantizationReport& report) {
  llvm::json::Array layers, outputs;
  for (const QuantizedLayer& layer : report.layers) {
    llvm::json::Object object = difference_json(layer.difference);
    object["name"] = layer.name;
    object["precision"] = layer.is_int8 ? "int8" : "float";
    object["can_be_int8"] = layer.can_be_int8;
    object["range"] = layer.range;
    if (layer.own_error >= 0) object["own_error"] = number_json(layer.own_error);
    layers.push_back(std::move(object));
  }
  for (const QuantizationReport::Output& output : report.outputs) {
    llvm::json::Object object = difference_json(output.difference);
    object["name"] = output.name;
    outputs.push_back(std::move(object));
  }
  llvm::json::Object all = difference_json(report.all_outputs);
  all["network"] = arguments.network.network;
  all["clouds"] = llvm::json::Array(arguments.clouds);
  all["calibration"] = arguments.calibration;
  if (arguments.error_budget > 0) all["error_budget"] = arguments.error_budget;
  all["networks_run"] = report.runs;
  all["layers"] = std::move(layers);
  all["outputs"] = std::move(outputs);
  if (!report.notes.empty()) all["notes"] = llvm::json::Array(report.notes);
  return all;
}

std::string number(double value) { return general_text(value, kErrorDigits); }

// The error and the cosine of a result. Results with different numbers of rows have none.
std::string error_text(const Difference& difference) {
  return difference.has_same_size ? number(difference.relative()) : "none";
}
std::string cosine_text(const Difference& difference) {
  return difference.has_same_size ? number(difference.cosine()) : "none";
}

void print_report(const QuantizationReport& report) {
  const bool has_own = llvm::any_of(report.layers, [](const QuantizedLayer& l) { return l.own_error >= 0; });
  size_t width = 5, int8 = 0;
  for (const QuantizedLayer& layer : report.layers) {
    width = std::max(width, layer.name.size());
    int8 += layer.is_int8 ? 1 : 0;
  }
  const auto print = [&](const std::string& name, const std::string& precision, const std::string& range,
                         const std::string& own, const std::string& error, const std::string& cosine) {
    llvm::outs() << name << std::string(width - name.size(), ' ')
                 << llvm::formatv(" {0,9} {1,10} ", precision, range);
    if (has_own) llvm::outs() << llvm::formatv("{0,10} ", own);
    llvm::outs() << llvm::formatv("{0,14} {1,10}\n", error, cosine);
  };
  print("layer", "precision", "range", "own error", "relative error", "cosine");
  for (const QuantizedLayer& layer : report.layers) {
    print(layer.name, layer.is_int8 ? "int8" : "float", number(layer.range),
          layer.own_error < 0 ? "" : number(layer.own_error), error_text(layer.difference),
          cosine_text(layer.difference));
  }
  llvm::outs() << "\n"
               << counted(static_cast<int64_t>(int8), "convolution") << " of " << report.layers.size()
               << (int8 == 1 ? " computes" : " compute") << " in 8 bits\n";
  for (const QuantizationReport::Output& output : report.outputs) {
    llvm::outs() << "output " << output.name << ": relative error " << error_text(output.difference)
                 << ", cosine " << cosine_text(output.difference) << "\n";
  }
  for (const std::string& note : report.notes) llvm::outs() << "note: " << note << "\n";
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
  std::vector<NamedFile> outputs{{"--output", description}, {"--json", arguments.json}};
  if (has_weights_output) outputs.push_back({"--output", arguments.output});
  MINUET_TRY(check_distinct(outputs, inputs));
  std::optional<OutputFile> weights_file;
  if (has_weights_output) {
    MINUET_ASSIGN(OutputFile file, OutputFile::open(arguments.output));
    weights_file.emplace(std::move(file));
  }
  MINUET_ASSIGN(OutputFile description_file, OutputFile::open(description));
  std::optional<OutputFile> json_file;
  if (!arguments.json.empty() && arguments.json != "-") {
    MINUET_ASSIGN(OutputFile file, OutputFile::open(arguments.json));
    json_file.emplace(std::move(file));
  }

  MINUET_ASSIGN(const Session session, open_session({arguments.cache}, arguments.device));
  MINUET_ASSIGN(const minuet_dtype dtype, dtype_for(arguments.dtype, session.facts.is_cpu()));
  QuantizationChoice choice;
  MINUET_ASSIGN(choice.method, parse_range_method(arguments.calibration));
  choice.percentile = arguments.percentile;
  choice.error_budget = arguments.error_budget;
  choice.floating = arguments.floating;
  NetworkChoice network = arguments.network;
  MINUET_ASSIGN(const std::vector<VoxelCloud> clouds, read_clouds(arguments, session, dtype, network));
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
  if (!arguments.json.empty()) {
    const std::string text = json_text(report_json(arguments, report));
    if (arguments.json == "-") {
      llvm::outs() << text;
      return llvm::Error::success();
    }
    MINUET_TRY(json_file->write(text));
  }
  print_report(report);
  llvm::outs() << description << "\n";
  if (weights_file) llvm::outs() << arguments.output << "\n";
  return llvm::Error::success();
}

}  // namespace minuet::tool
