#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

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

void add_maps(CLI::App& app, ExecutionChoice& execution) {
  add_value(app, "--maps", execution.maps, "NAME",
            "how kernel maps are made: indexed by the cells that are occupied, or sorted; default: indexed "
            "where it can be");
}

void add_tuned(CLI::App& app, Arguments& arguments) {
  app.add_flag("--tuned", arguments.tuned, "choose by what `minuet tune run` found on this device");
}

void add_replay(CLI::App& app, ExecutionChoice& execution) {
  app.add_flag("--replay", execution.replay,
               "time inferences in capacity mode: on a GPU, one CUDA graph is replayed for each cloud; one "
               "that does not fit is inferred again in exact mode, and the graph made larger");
}

/// Adds the flags for voxels with features, which replace the cloud.
void add_voxels(CLI::App& app, InputOptions& input) {
  add_value(app, "--coordinates", input.coordinates, "C.npy",
            "voxels instead of CLOUD: NPY, integer [N, ndim] or, batch first, [N, 1 + ndim]");
  add_value(app, "--features", input.features, "F.npy", "their features: NPY, [N, input channels]");
}

void add_run_outputs(CLI::App& run, Arguments& arguments) {
  add_value(run, "--output", arguments.output, "FILE",
            "features of every output voxel: .npy (float32 [M, C]) or .ply");
  run.add_flag("--labels", arguments.labels,
               "write the channel of the largest feature instead (int32 [M]; -1 where one is not finite), in "
               ".ply with colours");
  add_palette(run, arguments);
  run.add_flag("--per-point", arguments.per_point,
               "a row for every point instead of every voxel, in the points' order; .ply keeps the points' "
               "own numbers");
  add_value(run, "--output-coordinates", arguments.output_coordinates, "FILE",
            ".npy file for the output voxels: int32 [M, 1 + ndim], batch first");
  add_value(run, "--json", arguments.json, "FILE",
            "the report as JSON; - writes it to stdout instead of the tables");
  add_value(run, "--trace", arguments.trace, "FILE",
            "times of look-ups, compiles, loads and of each layer of each inference, on a GPU also as the "
            "device took them, for ui.perfetto.dev");
  run.add_flag("--list-kernels", arguments.list_kernels, "list every kernel and where its binary came from");
}

}  // namespace

CLI::Option* add_network_name(CLI::App& app, NetworkChoice& network) {
  return add_value(app, "--network", network.network, "NAME|FILE",
                   "minkunet42, sparseresnet21d, or a JSON file (share/doc/minuet/networks/README.md)")
      ->capture_default_str();
}

CLI::Option* add_networks(CLI::App& app, Arguments& arguments) {
  return add_list(app, "--network", arguments.networks, "NAME|FILE",
                  "one or more, by commas; default: minkunet42,sparseresnet21d");
}

void add_channels(CLI::App& app, NetworkChoice& network) {
  add_list(app, "--channels", network.channels, "C0,C1", "other widths, as many as the network lists")
      ->transform(kDecimal);
}

CLI::Option* add_dtype(CLI::App& app, std::string& dtype) {
  return add_value(app, "--dtype", dtype, "TYPE",
                   "fp32, tf32, fp16 or bf16; default: fp16 on a GPU, fp32 on the CPU");
}

void add_dtypes(CLI::App& app, Arguments& arguments, const std::string& otherwise) {
  add_list(app, "--dtype", arguments.dtypes, "TYPE",
           "one or more of fp32, tf32, fp16, bf16; default: " + otherwise);
}

CLI::Option* add_dataflow(CLI::App& app, NetworkChoice& network) {
  return add_value(app, "--dataflow", network.dataflow, "NAME",
                   "how convolutions are computed: gather-gemm-scatter or fused; default: auto, what is "
                   "expected to be faster, layer by layer");
}

CLI::Option* add_cache(CLI::App& app, Arguments& arguments) {
  return add_value(app, "--cache", arguments.cache, "DIR",
                   "kernel cache folder; default: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet, ~/.cache/minuet");
}

void add_device(CLI::App& app, DeviceChoice& choice) {
  add_value(app, "--device", choice.name, "NAME",
            "cuda:N or cpu; default: cuda:0 where it is usable, else cpu");
  add_count(
      app, "--threads", choice.threads, 1, kMostThreads,
      "threads of the CPU device, at most one for each CPU that this process may use; default: one for each");
}

void add_commit(CLI::App& app, std::string& commit) {
  add_value(app, "--commit", commit, "ID", "commit to note in the JSON; default: none");
}

void add_run(CLI::App& run, Arguments& arguments) {
  run.footer(kRunFooter);
  add_cloud(run, arguments.input);
  add_voxels(run, arguments.input);
  add_keep_first_duplicate(run, arguments.execution);
  add_network_name(run, arguments.network);
  add_channels(run, arguments.network);
  add_weights(run, arguments.network);
  add_value(run, "--weights-seed", arguments.network.weights_seed, "S", "seed of the random weights")
      ->excludes("--weights")
      ->transform(kDecimal)
      ->check(kWholeNumber)
      ->capture_default_str();
  add_dtype(run, arguments.dtype)
      ->description(
          "fp32, tf32, fp16 or bf16; default: fp16 on a GPU, fp32 on the CPU. fp16 holds up to 65504");
  add_dataflow(run, arguments.network);
  add_maps(run, arguments.execution);
  add_replay(run, arguments.execution);
  add_tuned(run, arguments);
  add_device(run, arguments.device);
  run.add_flag("--random-weights", arguments.random_weights, "--labels of a network without --weights");
  add_count(run, "--repeat", arguments.repeat, 1, 1000000,
            "warm inferences to time; default: 10 on a GPU, none but the first on the CPU");
  add_run_outputs(run, arguments);
  add_cache(run, arguments);
}

void add_bench(CLI::App& bench, Arguments& arguments) {
  bench.footer(kBenchFooter);
  add_networks(bench, arguments);
  add_dtypes(bench, arguments, "fp16 on a GPU, fp32 on the CPU");
  add_list(bench, "--cloud", arguments.clouds, "NAME|FILE",
           "one or more, by commas: clouds below, or .bin, .ply, .pcd and .npy files of points; default: all "
           "below");
  add_bench_files(bench, arguments);
  add_count(bench, "--variants", arguments.variants, 1, 1000,
            "timed inferences, each on its own cloud; default: 16 on a GPU, 2 on the CPU");
  add_count(bench, "--warm-up", arguments.warm_up, 1, 1000,
            "inferences before the timed ones; with 1, how a fresh process meets new clouds; default: 20 on "
            "a GPU, 1 on the CPU");
  add_value(bench, "--output", arguments.output, "FILE|DIR",
            "the results as JSON: a .json file for one, or a folder that is there, for "
            "<network>_<dtype>.json each; default: none is written");
  add_commit(bench, arguments.commit);
  add_dataflow(bench, arguments.network);
  add_maps(bench, arguments.execution);
  add_replay(bench, arguments.execution);
  add_tuned(bench, arguments);
  add_device(bench, arguments.device);
  add_cache(bench, arguments);
}

void add_info(CLI::App& info, Arguments& arguments) { add_cache(info, arguments); }

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
  return check_weights_flags(arguments.network);
}

}  // namespace minuet::tool
