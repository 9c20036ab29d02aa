#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {

void add_file_columns(CLI::App& app, ColumnOptions& columns) {
  add_count(app, "--columns", columns.columns, 3, 1024,
            "number of float32 numbers in each row of a .bin file; default: 4");
  add_count(app, "--intensity-column", columns.intensity_column, 3, 1023,
            "column, counted from 0, that is the intensity in a .bin or .npy file; default: 3 if there are 4 "
            "or 5 columns, otherwise none");
  add_value(app, "--intensity-field", columns.intensity_field, "NAME",
            "name, in upper or lower case, of the field that is the intensity in a .ply or .pcd file; "
            "default: intensity, reflectivity or scalar_intensity");
}

void add_bench_files(CLI::App& app, Arguments& arguments) {
  add_value(
      app, "--voxel-size", arguments.file_voxel_size, "M|X,Y,Z",
      "for clouds from files: edge of a voxel in metres, or its edges along x, y and z; default: 0.1. With "
      "--range, for all clouds; default then: that of the network");
  add_file_columns(app, arguments.file_columns);
  add_data(app, arguments.data);
}

void add_data(CLI::App& app, std::string& data) {
  add_value(app, "--data", data, "DIR",
            "folder with the files of recorded clouds; default: $MINUET_SHARED/data if that variable is set, "
            "otherwise ../shared/data");
}

void add_cloud(CLI::App& app, InputOptions& input) {
  add_value(app, "CLOUD", input.cloud, "FILE", "point-cloud file: .bin, .ply, .pcd or .npy");
  CLI::Option* const synthetic =
      add_value(app, "--synthetic", input.synthetic, "KIND",
                "use a generated cloud instead of a file: lidar, room, object or random");
  add_count(app, "--points", input.points, int64_t{1}, int64_t{100000000},
            "number of points of the generated cloud; default: 120000")
      ->needs(synthetic);
  add_value(
      app, "--extent", input.extent, "E",
      "size of the generated scene in metres, which few --points cover only in part: lidar 10 to 1000, room "
      "0.5 to 250 (its width is three quarters of that); default: lidar 200, room 8, object 1, random 40")
      ->needs(synthetic)
      ->transform(kNumber)
      ->check(CLI::Range(1e-3, 1e6));
  add_value(app, "--seed", input.seed, "S", "seed of the generated cloud")
      ->needs(synthetic)
      ->transform(kDecimal)
      ->check(kWholeNumber)
      ->capture_default_str();
  add_file_columns(app, input.columns);
  add_value(
      app, "--voxel-size", input.voxel_size, "M|X,Y,Z",
      "edge of a voxel in metres, or its edges along x, y and z; default: 0.1, or that of the network if "
      "its input has a shape");
  app.add_option_function<std::vector<double>>(
         "--origin",
         [&input](const std::vector<double>& origin) {
           input.origin = {origin[0], origin[1], origin[2]};
         },
         "point, in metres, from which voxels are counted and position features are measured; default: "
         "0,0,0, or near the middle of the cloud if float32 is too coarse for its points")
      ->delimiter(',')
      ->expected(3)
      ->allow_extra_args(false)
      ->check(kNumber)
      ->type_name("X,Y,Z");
  app.add_flag("--skip-invalid", input.skip_invalid, "drop (and count) points with NaN or infinite numbers");
}

CLI::Option* add_range(CLI::App& app, std::string& range) {
  return add_value(
      app, "--range", range, "X0,Y0,Z0,X1,Y1,Z1",
      "box in metres that is divided into voxels from its least corner; points outside are cut and "
      "counted; default: that of the network if its input has a shape, otherwise none");
}

void add_grid(CLI::App& app, InputOptions& input) {
  add_range(app, input.range);
  add_count(
      app, "--max-points", input.limits.points, int64_t{1}, int64_t{1000000},
      "points of each voxel that count for its features in a --range, those of lowest index; default: all");
  add_count(app, "--max-voxels", input.limits.voxels, int64_t{1}, int64_t{100000000},
            "voxels that are kept in a --range, those with the lowest first point; default: all");
}

void add_keep_first_duplicate(CLI::App& app, ExecutionChoice& execution) {
  app.add_flag("--keep-first-duplicate", execution.keep_first_duplicate,
               "if voxels have equal coordinates, use the features of the first; without this flag, they are "
               "an error");
}

llvm::Error check_cloud(const InputOptions& input) {
  const int sources = !input.cloud.empty() + !input.coordinates.empty() + !input.synthetic.empty();
  MINUET_TRY(parse_voxel_size(input.voxel_size).takeError());
  if (sources == 0)
    return bad_input("no cloud: name a file, or use --synthetic or (minuet run only) --coordinates");
  if (sources > 1)
    return bad_input("CLOUD, --coordinates and --synthetic exclude each other: give only one of them");
  if (!input.range.empty()) {
    Position low, high;
    MINUET_TRY(parse_range(input.range, low, high));
    if (input.origin) {
      return bad_input(
          "--range and --origin exclude each other, because voxels are counted from the corner of the range: "
          "omit "
          "one of them");
    }
  }
  const ColumnOptions& columns = input.columns;
  if (input.cloud.empty() && columns.any()) {
    return bad_input(
        "--columns, --intensity-column and --intensity-field are only for a CLOUD file: omit them, or name a "
        "CLOUD");
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
