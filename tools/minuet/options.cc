#include "tools/minuet/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "tools/minuet/error.h"
#include "tools/minuet/options_caches.h"
#include "tools/minuet/options_input.h"
#include "tools/minuet/options_pages.h"
#include "tools/minuet/options_rules.h"
#include "tools/minuet/options_weights.h"
#include "tools/minuet/output_file.h"
#include "tools/minuet/report.h"

namespace minuet::tool {
namespace {

constexpr const char* kExamples = R"(
Examples:
  minuet run sweep.bin --output features.npy --output-coordinates voxels.npy
  minuet run sweep.pcd.bin --columns 5 --voxel-size 0.05 --network sparseresnet21d
  minuet run --synthetic lidar --device cpu --json report.json
  minuet view sweep.bin --output sweep.html
  minuet info
  minuet precompile --network minkunet42 --arch sm_80,sm_90a --output kernels
  minuet cache verify
`minuet COMMAND --help` tells all about a command. Exit codes: 0 done, 2 the input or a flag is at fault
(one sentence on stderr says how), 1 anything else.)";

constexpr const char* kRunFooter = R"(
CLOUD by the end of its name:
  .bin   float32 rows, --columns numbers each (KITTI 4, nuScenes 5): x y z intensity ...
  .ply   ascii, binary little or big endian; vertex properties x y z [intensity], in any case
  .pcd   ascii, binary, binary_compressed; fields x y z [intensity], in any case
  .npy   float [N, 3+]: points; integer [N, 3] or, batch first, [N, 4]: voxels
Points are in metres. A voxel is floor((p - origin) / voxel_size), p - origin in float64, the rest in
float32, in the order of first appearance; its features are the mean x, y, z (metres, from the origin) and
intensity of its points, 0 where absent. Voxels that come as such get their centres in metres. Outputs are
counted from 0 again, whatever the origin; coarser levels lie on the origin's grid. Positions that are
stored, or left behind the origin, in steps of more than a tenth of a voxel are refused. .bin and .npy: of
6 columns or more none is taken for the intensity. Voxels in a .ply --output have `batch` where one is not
0, and `t`, the fourth axis, in voxels. A file that says it has no points gives empty outputs; one of 0
bytes is refused.

Times: `first` is cold (compile or load kernels, upload weights, first inference); `total` the median of
the warm repeats, each with all maps rebuilt, from coordinates and features in device memory to the
output. Stages come from a profiled pass of their own on a GPU.

Examples:
  minuet run sweep.bin                                  # MinkUNet42, random weights, 0.1 m
  minuet run sweep.ply --weights W.safetensors --labels --output labels.ply
  minuet run scan.ply --weights W.safetensors --labels --per-point --output points.ply --origin 450000,5400000,0
  minuet run sweep.pcd --intensity-field i --voxel-size 0.05,0.05,0.1
  minuet run --synthetic room --points 200000 --voxel-size 0.02 --dtype bf16 --json report.json
  minuet run --coordinates C.npy --features F.npy --network minkunet42 \
      --channels 8,8,16,24,32,32,24,16,16 --weights W.safetensors --dtype fp32 --output out.npy)";

constexpr const char* kBenchFooter = R"(
Prints a table, and writes nothing but the --output. Of a file whose points lie so far out that float32 is
too coarse there, an origin near its middle is subtracted first, as `minuet run` does.

Wall time of one inference by the host's clock: from unsorted coordinates and features in device memory
to the output, all maps rebuilt, no graph replay. Every timed inference sees a cloud that was not seen
before: the cloud turned about z and thinned to 95-99 % of its points (random clouds: another seed). The
warm-up uses other, unthinned variants. Stages come from a second, profiled loop.

With --replay the same inferences in capacity mode, 1.25 times the unthinned variants' voxels at every
level: sizes live on the device, and a GPU replays one graph. There are no stages then.

Clouds: os1_0.1 os1_0.05 office_0.01 room_scan_0.02 (files of --data), random_1e5 random_1e6 (voxels in
400^3), lidar_0.1 room_0.02 object_0.01 (generated).

Examples:
  minuet bench                                          # both networks, every cloud
  minuet bench --network minkunet42 --cloud sweep.pcd --voxel-size 0.05
  minuet bench --network minkunet42 --dtype fp16 --cloud os1_0.1 --output os1.json)";

void add_network(CLI::App& app, Arguments& arguments) {
  app.add_option("--network", arguments.network.network,
                 "minkunet42, sparseresnet21d, or a JSON file (share/doc/minuet/networks/README.md)")
      ->capture_default_str()
      ->type_name("NAME|FILE");
  add_channels(app, arguments);
  add_weights(app, arguments.network);
  app.add_option("--weights-seed", arguments.network.weights_seed, "seed of the random weights")
      ->excludes("--weights")
      ->transform(kDecimal)
      ->check(kWholeNumber)
      ->capture_default_str()
      ->type_name("S");
}

CLI::Option* add_dtype(CLI::App& app, std::string& dtype) {
  return app
      .add_option("--dtype", dtype,
                  "fp32, tf32, fp16 or bf16; default: fp16 on a GPU, fp32 on the CPU. fp16 holds up to 65504")
      ->type_name("TYPE");
}

void add_dataflow(CLI::App& app, NetworkChoice& network) {
  app.add_option(
         "--dataflow", network.dataflow,
         "how convolutions are computed: gather-gemm-scatter or fused; default: auto, what is expected "
         "to be faster, layer by layer")
      ->type_name("NAME");
}

void add_maps(CLI::App& app, ExecutionChoice& execution) {
  app.add_option("--maps", execution.maps,
                 "how kernel maps are made: indexed by the cells that are occupied, or sorted; default: "
                 "indexed where it can be")
      ->type_name("NAME");
}

void add_tuned(CLI::App& app, Arguments& arguments) {
  app.add_flag("--tuned", arguments.tuned, "choose by what `minuet tune run` found on this device");
}

void add_replay(CLI::App& app, ExecutionChoice& execution) {
  app.add_flag("--replay", execution.replay,
               "time inferences in capacity mode: on a GPU, one CUDA graph is replayed for each cloud; one "
               "that does not fit is inferred again in exact mode, and the graph made larger");
}

void add_run(CLI::App& run, Arguments& arguments) {
  run.footer(kRunFooter);
  add_cloud(run, arguments.input);
  add_voxels(run, arguments);
  add_keep_first_duplicate(run, arguments.execution);
  add_network(run, arguments);
  add_dtype(run, arguments.dtype);
  add_dataflow(run, arguments.network);
  add_maps(run, arguments.execution);
  add_replay(run, arguments.execution);
  add_tuned(run, arguments);
  add_device(run, arguments.device);
  run.add_flag("--random-weights", arguments.random_weights, "--labels of a network without --weights");
  run.add_option("--repeat", arguments.repeat,
                 "warm inferences to time; default: 10 on a GPU, none but the first on the CPU")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(1, 1000000));
  run.add_option("--output", arguments.output,
                 "features of every output voxel: .npy (float32 [M, C]) or .ply")
      ->type_name("FILE");
  run.add_flag("--labels", arguments.labels,
               "write the channel of the largest feature instead (int32 [M]; -1 where one is not finite), in "
               ".ply with colours");
  run.add_option("--palette", arguments.palette,
                 "colours of the labels: JSON, [[red, green, blue], ...], 0 to 255")
      ->type_name("FILE");
  run.add_flag("--per-point", arguments.per_point,
               "a row for every point instead of every voxel, in the points' order; .ply keeps the points' "
               "own numbers");
  run.add_option("--output-coordinates", arguments.output_coordinates,
                 ".npy file for the output voxels: int32 [M, 1 + ndim], batch first")
      ->type_name("FILE");
  run.add_option("--json", arguments.json, "the report as JSON; - writes it to stdout instead of the tables")
      ->type_name("FILE");
  run.add_option("--trace", arguments.trace,
                 "times of look-ups, compiles, loads and of each layer of each inference, on a GPU also as "
                 "the device "
                 "took them, for ui.perfetto.dev")
      ->type_name("FILE");
  run.add_flag("--list-kernels", arguments.list_kernels, "list every kernel and where its binary came from");
  add_cache(run, arguments);
}

void add_bench(CLI::App& bench, Arguments& arguments) {
  bench.footer(kBenchFooter);
  add_networks(bench, arguments)->description("one or more, by commas; default: minkunet42,sparseresnet21d");
  bench
      .add_option("--dtype", arguments.dtypes,
                  "one or more of fp32, tf32, fp16, bf16; default: fp16 on a GPU, fp32 on the CPU")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("TYPE");
  bench
      .add_option("--cloud", arguments.clouds,
                  "one or more, by commas: clouds below, or .bin, .ply, .pcd and .npy files of points; "
                  "default: all below")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME|FILE");
  bench
      .add_option("--voxel-size", arguments.file_voxel_size,
                  "edge of a voxel in metres, or its edges along x, y and z, for files; default: 0.1")
      ->type_name("M|X,Y,Z");
  add_file_columns(bench, arguments.file_columns);
  bench
      .add_option("--data", arguments.data,
                  "folder of the real clouds; default: MINUET_SHARED/data, ../shared/data")
      ->type_name("DIR");
  bench
      .add_option("--variants", arguments.variants,
                  "timed inferences, each on its own cloud; default: 16 on a GPU, 2 on the CPU")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(1, 1000));
  bench
      .add_option(
          "--warm-up", arguments.warm_up,
          "inferences before the timed ones; with 1, how a fresh process meets new clouds; default: 20 "
          "on a GPU, 1 on the CPU")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(1, 1000));
  bench
      .add_option("--output", arguments.output,
                  "the results as JSON: a .json file for one, or a folder that is there, for "
                  "<network>_<dtype>.json each; default: none is written")
      ->type_name("FILE|DIR");
  bench.add_option("--commit", arguments.commit, "commit to note in the JSON; default: none")
      ->type_name("ID");
  add_dataflow(bench, arguments.network);
  add_maps(bench, arguments.execution);
  add_replay(bench, arguments.execution);
  add_tuned(bench, arguments);
  add_device(bench, arguments.device);
  add_cache(bench, arguments);
}

llvm::Error check_run(const Arguments& arguments) {
  const InputOptions& input = arguments.input;
  MINUET_TRY(check_cloud(input));
  if (!input.features.empty() && input.coordinates.empty())
    return bad_input("--features needs --coordinates");
  if (!input.coordinates.empty() && !input.features.empty() && input.origin) {
    return bad_input("--origin is for the positions that become features, and --features gives others");
  }
  const llvm::StringRef output = arguments.output;
  const bool is_ply = extension_of(output) == ".ply";
  if (!output.empty() && !is_ply && extension_of(output) != ".npy") {
    return bad_input("--output '{0}' does not end in .npy or .ply", output);
  }
  if (!arguments.output_coordinates.empty() && extension_of(arguments.output_coordinates) != ".npy") {
    return bad_input("--output-coordinates '{0}' does not end in .npy", arguments.output_coordinates);
  }
  if (arguments.trace == "-") return bad_input("--trace writes a file: give it a name");
  if (output.empty() && (arguments.labels || arguments.per_point)) {
    return bad_input("{0} needs --output", arguments.labels ? "--labels" : "--per-point");
  }
  if (!arguments.palette.empty() && !(arguments.labels && is_ply)) {
    return bad_input("--palette needs --labels and an --output that ends in .ply");
  }
  if (arguments.random_weights && !arguments.network.weights.empty()) {
    return bad_input("--weights and --random-weights exclude each other");
  }
  if (arguments.labels && arguments.network.weights.empty() && !arguments.random_weights) {
    return bad_input(
        "--labels without --weights: labels of random weights mean nothing; --random-weights writes them all "
        "the same");
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<Arguments> parse_arguments(int count, const char* const* values) {
  Arguments arguments;
  CLI::App app{
      "Minuet: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU, compiled at run time."};
  app.name("minuet");
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", [] { return "minuet " + version_text(); });
  CLI::App* const run = app.add_subcommand("run", "Run a network over a point cloud");
  CLI::App* const view =
      app.add_subcommand("view", "A cloud, its voxels and neighbours as a page to look at");
  CLI::App* const report = app.add_subcommand("report", "Result files as a page of plots and tables");
  CLI::App* const info =
      app.add_subcommand("info", "Show devices, driver, NVRTC, LLVM, cache folder, and what is missing");
  CLI::App* const bench = app.add_subcommand("bench", "Measure networks over many clouds, or over your own");
  CLI::App* const precompile = app.add_subcommand("precompile", "Compile networks' kernels, with no GPU");
  CLI::App* const cache = app.add_subcommand("cache", "Look into the kernel cache, or into a bundle");
  add_run(*run, arguments);
  add_view(*view, arguments);
  add_report(*report, arguments);
  add_cache(*info, arguments);
  add_bench(*bench, arguments);
  add_precompile(*precompile, arguments);
  add_cache_command(*cache, arguments);
  CLI::App* const tune = app.add_subcommand("tune", "Measure what is fastest; look at the results");
  add_tune(*tune, arguments.tune);
  CLI::App* const study = app.add_subcommand("study", "Repeat the paper's measurements on this machine");
  add_study(*study, arguments.study);
  CLI::App* const weights = app.add_subcommand("weights", "Convert weights that other engines stored");
  add_weights_command(*weights, arguments);
  refuse_empty_values(app);
  MINUET_TRY(check_values(app, count, values));
  try {
    app.parse(count, values);
  } catch (const CLI::ExtrasError&) {
    return bad_input("{0} (minuet --help and minuet COMMAND --help list the flags)", unknown_argument(app));
  } catch (const CLI::RequiredError& error) {
    const bool is_unknown = !app.remaining(true).empty();  // what stands where a subcommand is to stand
    return bad_input("{0} (minuet --help and minuet COMMAND --help list the flags)",
                     is_unknown ? unknown_argument(app) : error.what());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream text;
      app.exit(error, text, text);
      llvm::outs() << text.str();
      return Arguments();
    }
    std::string text = error.what();
    for (char& c : text) c = c == '\n' ? ' ' : c;
    return bad_input("{0} (minuet --help and minuet COMMAND --help list the flags)", text);
  }
  if (app.get_subcommands().empty()) {
    return bad_input(
        "a command is missing: run, view, report, info, bench, precompile, cache, tune, study or "
        "weights");
  }
  arguments.command = run->parsed()       ? Command::Run
                      : view->parsed()    ? Command::View
                      : report->parsed()  ? Command::Report
                      : info->parsed()    ? Command::Info
                      : bench->parsed()   ? Command::Bench
                      : cache->parsed()   ? Command::Cache
                      : tune->parsed()    ? Command::Tune
                      : study->parsed()   ? Command::Study
                      : weights->parsed() ? Command::Weights
                                          : Command::Precompile;
  if (arguments.command == Command::Run) MINUET_TRY(check_run(arguments));
  if (arguments.command == Command::View) MINUET_TRY(check_view(arguments));
  if (arguments.command == Command::Report) MINUET_TRY(check_page(arguments));
  if (arguments.command == Command::Precompile) MINUET_TRY(check_precompile(arguments));
  if (arguments.command != Command::Weights) MINUET_TRY(check_weights_flags(arguments.network));
  return arguments;
}

}  // namespace minuet::tool
