#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

constexpr const char* kQuantizeFooter = R"(
Runs NETWORK in floating numbers over the clouds, takes the range of each convolution's result, and writes the
description of the network that computes in 8 bits with these ranges. Its weights are those of the floating
network: --output Q.safetensors writes them, in Minuet's order and with Minuet's names, and the description
beside them as Q.json. --output Q.json writes the description alone. The network then runs with

  minuet run CLOUD --network Q.json --weights Q.safetensors

Choose clouds that are like those that you will run: numbers beyond a range are limited to it. `max` takes the
largest magnitude, `percentile` one that most numbers do not exceed, and `mse` the range whose 8-bit numbers
have the least mean squared error.

Every convolution computes in 8 bits that can: that has no groups, and that reads results of convolutions
without groups, also through concats, poolings by maximum and other ops that only move features. Convolutions
that read an input of the network keep floating numbers. With --error-budget, the convolutions with the largest
errors keep them too, until the relative error of the outputs on these clouds is within the budget. The error
of a convolution is that of the outputs if it alone computes in 8 bits.

The table has, for each convolution: whether it computes in 8 bits, the range of its result, the error of its
own (with --error-budget), and the relative error and the cosine of its result in the whole network. A relative
error is the L2 norm of the difference from the floating network, divided by that of the floating numbers. It
says nothing about the accuracy in a task: measure that with the network's own data. --page writes the table
and plots of it as an HTML file, and `minuet report` shows the files of --json so. Convolutions that keep floating
numbers are listed with the reason. One reason is that a sum of 32-bit integers could overflow with the weights.

The last line is the command that runs the network with the voxels of the quantization: a network whose input
has a shape needs the same --range and --voxel-size.

Examples:
  minuet quantize minkunet42 --weights W.safetensors --clouds a.bin,b.bin --output Q.safetensors
  minuet quantize minkunet42 --weights W.pth --clouds a.bin --calibration percentile --error-budget 0.05 \
      --output Q.safetensors --json errors.json --page errors.html
  minuet quantize minkunet42 --random-weights --clouds os1_0.1 --float decoder.3.up --output Q.json)";

}  // namespace

void add_quantize(CLI::App& quantize, Arguments& arguments) {
  quantize.footer(kQuantizeFooter);
  add_value(quantize, "NETWORK", arguments.network.network, "NAME|FILE",
            "network to quantize: the name of a shipped one, or a JSON file")
      ->required();
  add_list(
      quantize, "--clouds,--cloud", arguments.clouds, "NAME|FILE",
      "one or more, separated by commas: .bin, .ply, .pcd and .npy files of points, or clouds of `minuet "
      "bench`")
      ->required();
  add_bench_files(quantize, arguments);
  add_range(quantize, arguments.range);
  add_channels(quantize, arguments.network);
  add_weights(quantize, arguments.network);
  quantize.get_option("--weights")
      ->description("safetensors file or PyTorch checkpoint; needed unless --random-weights is given");
  quantize
      .add_flag("--random-weights", arguments.random_weights,
                "quantize with random weights, for measurements of time; --output is a .json file then")
      ->excludes("--weights");
  add_value(quantize, "--calibration", arguments.calibration, "NAME",
            "how a range follows from numbers: max, percentile or mse")
      ->capture_default_str();
  add_value(quantize, "--percentile", arguments.percentile, "P",
            "per cent of the numbers that are within the range, for --calibration percentile; default: 99.99")
      ->transform(kNumber)
      ->check(CLI::Range(50.0, 100.0));
  add_value(quantize, "--error-budget", arguments.error_budget, "E",
            "largest relative error of the outputs; default: no limit")
      ->transform(kNumber)
      ->check(CLI::Range(1e-6, 10.0));
  add_list(quantize, "--float", arguments.floating, "LAYER",
           "convolutions that keep floating numbers, as the table names them, separated by commas");
  add_value(quantize, "--output", arguments.output, "FILE",
            ".safetensors: weights, with the description beside them; .json: the description")
      ->required();
  add_value(quantize, "--json", arguments.json, "FILE",
            "write the table as JSON; - writes it to stdout instead of the table");
  add_value(quantize, "--page", arguments.page, "FILE",
            "write the table, and plots of it, as an HTML file that works offline");
  add_dtype(quantize, arguments.dtype)
      ->description(
          "fp32, tf32, fp16 or bf16, in which the floating network runs; default: fp16 on a GPU, fp32 on the "
          "CPU");
  add_device(quantize, arguments.device);
  add_cache(quantize, arguments);
}

llvm::Error check_quantize(const Arguments& arguments) {
  const std::string kind = extension_of(arguments.output);
  if (kind != ".safetensors" && kind != ".json")
    return bad_input("--output '{0}' must end in .safetensors or .json", arguments.output);
  if (!arguments.page.empty()) MINUET_TRY(check_html("--page", arguments.page));
  if (arguments.percentile && arguments.calibration != "percentile") {
    return bad_input(
        "--percentile is for --calibration percentile, and --calibration is {0}: give that, or leave "
        "--percentile out",
        arguments.calibration);
  }
  const bool has_weights = !arguments.network.weights.empty();
  if (!has_weights && !arguments.random_weights) {
    return bad_input(
        "--weights is missing: ranges of random weights mean nothing; --random-weights allows them, for "
        "measurements of time");
  }
  if (!has_weights && kind != ".json") {
    return bad_input(
        "--output '{0}' would hold random weights: name a .json file, which gets the description alone",
        arguments.output);
  }
  return check_weights_flags(arguments.network);
}

}  // namespace minuet::tool
