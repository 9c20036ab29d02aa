#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/tensor_file.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

constexpr const char* kRunFooter = R"(
The end of CLOUD's name selects the reader:
  .bin   float32 rows of --columns numbers (KITTI 4, nuScenes 5): x y z intensity ...
  .ply   ascii, binary little or big endian; vertex properties x y z [intensity], in upper or lower case
  .pcd   ascii, binary, binary_compressed; fields x y z [intensity], in upper or lower case
  .npy   float [N, 3+]: points; integer [N, 3], or [N, 4] with the batch index first: voxels
Points are in metres. A voxel is floor((p - origin) / voxel_size), with p - origin in float64 and the rest
in float32. Voxels are in the order of first appearance. Their features are the mean x, y and z (metres from
the origin) and intensity (0 if absent) of their points. Voxels from a file have their centres in metres as
features. Coordinates of output voxels count from 0, not from the origin, but coarser voxels are aligned to
the origin. Positions are refused if they are rounded, as stored or relative to the origin, to steps of more
than a tenth of a voxel. In .bin and .npy files with 6 columns or more, no column is the intensity by default.
Voxels in a .ply --output have `batch` if a batch index is not 0, and `t`, the fourth axis, in voxels. A file
whose header says that it has no points gives empty outputs; a file of 0 bytes is refused.

Networks whose input has a shape, such as voxel_backbone_8x, count voxels from the corner of --range: a voxel is
floor((p - corner) / voxel_size), all in float32, and the shape is round(range / voxel_size), with one cell more
along z in the shipped networks. Points outside are cut and counted. The features are the mean x, y and z as stored
and the mean intensity; a fifth channel is the time since the scan, 0. The output is the bird's-eye tensor.

Networks that take points, such as minkunet34c_points, make voxels themselves, of the size in their description. They
take x, y, z and the intensity of each point, and their outputs on the points have a row for each point of the cloud, in
its order; a point that --skip-invalid drops gets NaN or the label -1. Coordinates count from --origin and `low`.

A network of several inputs takes the features of the cloud as the first, and a file of --input-of for each other
one, with a row for each voxel of its level: on level 0 in the order of the cloud's voxels, on a coarser level in the
order that --coordinates-of writes for an output on it. A wrong number of rows is refused with the right one.

Times: `first` is the cold start (compile or load kernels, upload weights, first inference). `total` is the
median of the warm inferences, from coordinates and features in device memory to the output, with all maps
rebuilt. On a GPU, the stages come from a separate, profiled inference.

Examples:
  minuet run sweep.bin                                  # MinkUNet42, random weights, 0.1 m
  minuet run sweep.ply --weights W.safetensors --labels --output labels.ply
  minuet run scan.ply --weights W.safetensors --labels --per-point --output points.ply --origin 450000,5400000,0
  minuet run sweep.pcd --intensity-field i --voxel-size 0.05,0.05,0.1
  minuet run --synthetic room --points 200000 --voxel-size 0.02 --dtype bf16 --json report.json
  minuet run kitti.bin --network voxel_backbone_8x --weights W.safetensors --output bev.npy
  minuet run nuscenes.bin --columns 5 --network bevfusion_encoder --max-points 10 --max-voxels 160000 --output bev.npy
  minuet run sweep.bin --network minkunet34c_points --weights W.safetensors --labels --output labels.npy
  minuet run sweep.bin --network two.json --input-of image=image.npy --output-of near=near.npy --output-of far=far.npy
  minuet run --coordinates C.npy --features F.npy --network minkunet42 \
      --channels 8,8,16,24,32,32,24,16,16 --weights W.safetensors --dtype fp32 --output out.npy)";

constexpr const char* kBenchFooter = R"(
Prints a table, and writes only the --output. If the points of a file are so far from 0 that float32 is too
coarse there, an origin near their middle is subtracted first, as in `minuet run`.

Times are those of one inference by the host's clock, from unsorted coordinates and features in device
memory to the output, with all maps rebuilt and without graph replay; of a network that takes points, from
points in device memory, so that its voxels are made in each inference. Every timed inference has a new cloud:
the cloud turned about z and thinned to 95-99 % of its points, or random voxels of another seed. The warm-up
uses other variants, which are not thinned. Stages come from a second, profiled loop.

With --replay, the same inferences run in capacity mode, in which buffers have fixed sizes: 1.25 times the
voxels of the unthinned variants at every level. The numbers of voxels stay on the device, a GPU replays one
CUDA graph, and no stages are measured.

With --training, whole steps of training are timed in capacity mode: the maps of the cloud, a forward pass and
a backward pass that gives the gradients of all parameters. The parts come from steps in which the host waits
between them, and `enqueue` is the time of the calls on the host. With --replay too, a GPU replays each step
as one CUDA graph.

Clouds: os1_0.1 os1_0.05 office_0.01 room_scan_0.02 (files of --data), random_1e5 random_1e6 (random voxels in
a cube of 400^3), lidar_0.1 room_0.02 object_0.01 (generated).

Examples:
  minuet bench                                          # both networks, every cloud
  minuet bench --network minkunet42 --cloud sweep.pcd --voxel-size 0.05
  minuet bench --network minkunet34c_points --cloud sweep.bin --replay   # from points to labels
  minuet bench --network minkunet42 --training --cloud os1_0.1           # forward, backward, whole steps
  minuet bench --network minkunet42 --dtype fp16 --cloud os1_0.1 --output os1.json)";

void add_maps(CLI::App& app, ExecutionChoice& execution) {
  add_value(
      app, "--maps", execution.maps, "NAME",
      "how kernel maps are made: indexed (by an index of the occupied voxels) or sorted; default: auto, "
      "which uses an index if possible");
}

void add_tuned(CLI::App& app, Arguments& arguments) {
  app.add_flag("--tuned", arguments.tuned,
               "choose kernels by the results of `minuet tune run` on this device");
}

void add_replay(CLI::App& app, ExecutionChoice& execution) {
  app.add_flag(
      "--replay", execution.replay,
      "time inferences in capacity mode, which uses buffers of fixed sizes and on a GPU replays one CUDA "
      "graph; a cloud that does not fit is inferred again with exact sizes, and the buffers grow");
}

/// Adds --coordinates and --features, which give voxels and their features in place of a cloud.
void add_voxels(CLI::App& app, InputOptions& input) {
  add_value(app, "--coordinates", input.coordinates, "C.npy",
            "voxels instead of CLOUD: NPY, integer [N, ndim] or, batch first, [N, 1 + ndim]");
  add_value(app, "--features", input.features, "F.npy",
            "features of the voxels of --coordinates: NPY, [N, input channels]");
}

/// Adds a flag with values NAME=FILE.npy, which may be given several times.
void add_tensor_files(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  add_value(app, name, values, "NAME=FILE.npy", help)->allow_extra_args(false);
}

void add_run_outputs(CLI::App& run, Arguments& arguments) {
  add_value(run, "--output", arguments.output, "FILE",
            "features of every output voxel: .npy (float32 [M, C], of an argmax int32 [M, 1]) or .ply; a "
            "dense output, such as a bird's-eye "
            "tensor, is a .npy of its own shape; of several outputs, the first (see --output-of)");
  run.add_flag(
      "--labels", arguments.labels,
      "write labels instead of features: the channel of each voxel's largest feature (int32 [M]; -1 "
      "if a feature is not finite; of an argmax, its channels as they are); a .ply file gets colours too");
  add_palette(run, arguments);
  run.add_flag("--per-point", arguments.per_point,
               "write a row for every point instead of every voxel, in the points' order; a .ply file also "
               "keeps the points' own numbers");
  add_value(run, "--output-coordinates", arguments.output_coordinates, "FILE",
            ".npy file for the coordinates of the output voxels: int32 [M, 1 + axes of the output's level], "
            "batch first");
  add_tensor_files(run, "--output-of", arguments.output_of,
                   "the output of this name: float32 [M, C], or int32 [M, 1] of an argmax, in the order of "
                   "its coordinates, or a dense "
                   "tensor of its shape; repeatable");
  add_tensor_files(run, "--coordinates-of", arguments.coordinates_of,
                   "coordinates of the voxels of the output of this name, which is not dense: int32 "
                   "[M, 1 + axes of the output's level], batch first; repeatable");
  add_value(run, "--json", arguments.json, "FILE",
            "write the report as JSON; - writes it to stdout instead of the tables");
  add_value(run, "--trace", arguments.trace, "FILE",
            "write a trace for ui.perfetto.dev: the times of kernel look-ups, compiles and loads, and of "
            "each layer of each inference; on a GPU also the times that the device measured");
  run.add_flag("--list-kernels", arguments.list_kernels, "list every kernel and where its binary came from");
}

}  // namespace

CLI::Option* add_network_name(CLI::App& app, NetworkChoice& network) {
  return add_value(app, "--network", network.network, "NAME|FILE",
                   "name of a shipped network (minuet run --list-networks), or a JSON file "
                   "(share/doc/minuet/networks/README.md)")
      ->capture_default_str();
}

CLI::Option* add_networks(CLI::App& app, Arguments& arguments) {
  return add_list(app, "--network", arguments.networks, "NAME|FILE",
                  "one or more shipped networks or JSON files, separated by commas; default: "
                  "minkunet42,sparseresnet21d");
}

void add_channels(CLI::App& app, NetworkChoice& network) {
  add_list(app, "--channels", network.channels, "C0,C1",
           "channel widths in place of the network's own, as many as it lists")
      ->transform(kDecimal);
  add_count(app, "--in-channels", network.in_channels, 1, 65536,
            "input channels in place of the network's own number");
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
                   "how convolutions are computed: gather-gemm-scatter or fused; default: auto, which uses "
                   "the one that is expected to be faster for each layer");
}

CLI::Option* add_cache(CLI::App& app, Arguments& arguments) {
  return add_value(app, "--cache", arguments.cache, "DIR",
                   "kernel cache folder; default: $MINUET_CACHE_DIR, otherwise $XDG_CACHE_HOME/minuet, "
                   "otherwise ~/.cache/minuet");
}

void add_device(CLI::App& app, DeviceChoice& choice) {
  add_value(app, "--device", choice.name, "NAME",
            "cuda:N or cpu; default: cuda:0 if it is usable, otherwise cpu");
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
  add_grid(run, arguments.input);
  add_voxels(run, arguments.input);
  add_tensor_files(run, "--input-of", arguments.input_of,
                   "features of an input of the network after the first, which has those of the cloud: NPY, "
                   "[rows of its level, channels]; required for each of them; repeatable");
  add_keep_first_duplicate(run, arguments.execution);
  add_network_name(run, arguments.network);
  run.add_flag("--list-networks", arguments.list_networks,
               "list the networks that are built in, one line each, and do nothing else");
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
  run.add_flag("--random-weights", arguments.random_weights,
               "allow --labels with random weights, which are used without --weights");
  add_count(run, "--repeat", arguments.repeat, 1, 1000000,
            "number of warm inferences to time; default: 10 on a GPU or with --replay, otherwise none, so "
            "that only the first inference is timed");
  add_run_outputs(run, arguments);
  add_cache(run, arguments);
}

void add_bench(CLI::App& bench, Arguments& arguments) {
  bench.footer(kBenchFooter);
  add_networks(bench, arguments);
  add_dtypes(bench, arguments, "fp16 on a GPU, fp32 on the CPU");
  add_list(bench, "--cloud", arguments.clouds, "NAME|FILE",
           "one or more, separated by commas: clouds named below, or .bin, .ply, .pcd and .npy files of "
           "points; default: all clouds below");
  add_bench_files(bench, arguments);
  add_range(bench, arguments.range);
  add_count(bench, "--variants", arguments.variants, 1, 1000,
            "timed inferences, each on its own cloud; default: 16 on a GPU, 2 on the CPU");
  add_count(bench, "--warm-up", arguments.warm_up, 1, 1000,
            "inferences before the timed ones; 1 shows how a fresh process handles new clouds; default: 20 "
            "on a GPU, 1 on the CPU");
  add_value(bench, "--output", arguments.output, "FILE|DIR",
            "write the results as JSON: a .json file for one result, or an existing folder for "
            "<network>_<dtype>.json files; default: none");
  add_commit(bench, arguments.commit);
  add_count(bench, "--in-channels", arguments.network.in_channels, 1, 65536,
            "input channels in place of the networks' own number");
  add_dataflow(bench, arguments.network);
  add_maps(bench, arguments.execution);
  add_replay(bench, arguments.execution);
  bench.add_flag(
      "--training", arguments.training,
      "time steps of training in place of inferences: the maps, a forward pass and a backward pass");
  add_count(bench, "--branches", arguments.branches, 1, 2,
            "2: with --training on a GPU, shortcuts are computed beside their blocks, and the gradients of "
            "parameters beside the others; default: the library chooses")
      ->needs("--training");
  add_tuned(bench, arguments);
  add_device(bench, arguments.device);
  add_cache(bench, arguments);
}

void add_info(CLI::App& info, Arguments& arguments) { add_cache(info, arguments); }

llvm::Error check_run(const Arguments& arguments) {
  const InputOptions& input = arguments.input;
  if (arguments.list_networks) return llvm::Error::success();
  MINUET_TRY(check_cloud(input));
  if (!input.features.empty() && input.coordinates.empty())
    return bad_input("--features needs --coordinates");
  if (!input.coordinates.empty() && !input.features.empty() && input.origin) {
    return bad_input(
        "--origin moves the positions that become features, but --features replaces them: omit one of the "
        "two");
  }
  const llvm::StringRef output = arguments.output;
  const bool is_ply = extension_of(output) == ".ply";
  if (!output.empty() && !is_ply && extension_of(output) != ".npy") {
    return bad_input("--output '{0}' must end in .npy or .ply", output);
  }
  if (!arguments.output_coordinates.empty() && extension_of(arguments.output_coordinates) != ".npy") {
    return bad_input("--output-coordinates '{0}' must end in .npy", arguments.output_coordinates);
  }
  MINUET_TRY(parse_tensor_files("--output-of", arguments.output_of).takeError());
  MINUET_TRY(parse_tensor_files("--coordinates-of", arguments.coordinates_of).takeError());
  MINUET_TRY(parse_tensor_files("--input-of", arguments.input_of).takeError());
  if (arguments.trace == "-") return bad_input("--trace cannot write to stdout: name a file instead of -");
  if (output.empty() && (arguments.labels || arguments.per_point)) {
    return bad_input("{0} needs --output", arguments.labels ? "--labels" : "--per-point");
  }
  if (!arguments.palette.empty() && !(arguments.labels && is_ply)) {
    return bad_input("--palette needs --labels and an --output that ends in .ply");
  }
  if (arguments.random_weights && !arguments.network.weights.empty()) {
    return bad_input("--weights and --random-weights exclude each other: omit one of them");
  }
  if (arguments.labels && arguments.network.weights.empty() && !arguments.random_weights) {
    return bad_input(
        "--labels needs --weights, because labels of random weights mean nothing; --random-weights allows "
        "them");
  }
  return check_weights_flags(arguments.network);
}

}  // namespace minuet::tool
