#include "tools/minuet/options_input.h"

#include <cmath>

#include "tools/minuet/error.h"
#include "tools/minuet/options_rules.h"
#include "tools/minuet/readers/scalar.h"

namespace minuet::tool {
namespace {

const CLI::Validator kFinite(
    [](const std::string& text) {
      const std::optional<double> value = parse_double(text);
      return value && std::isfinite(*value) ? std::string() : "'" + text + "' is no finite number";
    },
    "");

}  // namespace

void add_file_columns(CLI::App& app, ColumnOptions& columns) {
  app.add_option("--columns", columns.columns, "float32 numbers in a row of a .bin file; default: 4")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(3, 1024));
  app.add_option(
         "--intensity-column", columns.intensity_column,
         "which column of a .bin or .npy file is the intensity; default: 3 of 4 or 5 columns, else none")
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(3, 1023));
  app.add_option("--intensity-field", columns.intensity_field,
                 "which field of a .ply or .pcd file is the intensity, in any case; default: intensity, "
                 "reflectivity or scalar_intensity")
      ->type_name("NAME");
}

void add_cloud(CLI::App& app, InputOptions& input) {
  app.add_option("CLOUD", input.cloud, "point-cloud file: .bin, .ply, .pcd or .npy")->type_name("FILE");
  CLI::Option* const synthetic = app.add_option("--synthetic", input.synthetic,
                                                "a generated cloud instead: lidar, room, object or random")
                                     ->type_name("KIND");
  app.add_option("--points", input.points, "points of the generated cloud; default: 120000")
      ->needs(synthetic)
      ->type_name("N")
      ->transform(kDecimal)
      ->check(CLI::Range(int64_t{1}, int64_t{100000000}));
  app.add_option(
         "--extent", input.extent,
         "metres across of what is scanned, in part only by few --points: lidar 10 to 1000, room 0.5 to 250 "
         "(and three quarters of it wide); default: lidar 200, room 8, object 1, random 40")
      ->type_name("E")
      ->needs(synthetic)
      ->transform(kNumber)
      ->check(CLI::Range(1e-3, 1e6));
  app.add_option("--seed", input.seed, "seed of the generated cloud")
      ->needs(synthetic)
      ->transform(kDecimal)
      ->check(kWholeNumber)
      ->capture_default_str()
      ->type_name("S");
  add_file_columns(app, input.columns);
  app.add_option("--voxel-size", input.voxel_size, "edge of a voxel in metres, or its edges along x, y and z")
      ->capture_default_str()
      ->type_name("M|X,Y,Z");
  app.add_option_function<std::vector<double>>(
         "--origin",
         [&input](const std::vector<double>& origin) {
           input.origin = {origin[0], origin[1], origin[2]};
         },
         "where voxels are counted from and position features are relative to, in metres; default: 0,0,0, "
         "and near the middle of clouds that float32 does not resolve from there")
      ->delimiter(',')
      ->expected(3)
      ->allow_extra_args(false)
      ->check(kFinite)
      ->type_name("X,Y,Z");
  app.add_flag("--skip-invalid", input.skip_invalid, "drop (and count) points with NaN or infinite numbers");
}

void add_voxels(CLI::App& app, Arguments& arguments) {
  InputOptions& input = arguments.input;
  app.add_option("--coordinates", input.coordinates,
                 "voxels instead of CLOUD: NPY, integer [N, ndim] or, batch first, [N, 1 + ndim]")
      ->type_name("C.npy");
  app.add_option("--features", input.features, "their features: NPY, [N, input channels]")
      ->type_name("F.npy");
}

void add_keep_first_duplicate(CLI::App& app, ExecutionChoice& execution) {
  app.add_flag("--keep-first-duplicate", execution.keep_first_duplicate,
               "of voxels that are equal the first row's features count; else they are an error");
}

llvm::Error check_cloud(const InputOptions& input) {
  const int sources = !input.cloud.empty() + !input.coordinates.empty() + !input.synthetic.empty();
  MINUET_TRY(parse_voxel_size(input.voxel_size).takeError());
  if (sources == 0) return bad_input("no cloud: name a file, or use --synthetic or, of run, --coordinates");
  if (sources > 1) return bad_input("CLOUD, --coordinates and --synthetic exclude each other");
  const ColumnOptions& columns = input.columns;
  if (input.cloud.empty() && columns.any()) {
    return bad_input("--columns, --intensity-column and --intensity-field are for a CLOUD of a file");
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
