// Declares what all studies measure with: a device, clouds, and networks whose kernels and grouping of GEMMs
// a study can force.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/tuning_snapshot.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/library/library.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {

/// Says how much is measured. Tiny is for the tests, Small takes a CPU a minute or two, and Full measures as
/// the paper does.
enum class StudySize { Tiny, Small, Full };

/// Holds the values of the command-line flags.
struct StudyOptions {
  std::vector<std::string> names;  ///< Lists names of studies, or has "all".
  std::string output;              ///< Names the folder for the results.
  /// Holds "tiny", "small" or "full". An empty string means full on a GPU and small on the CPU.
  std::string size;
  std::string dtype, cache, data, commit;
  DeviceChoice device;
};

/// Holds a few variants of one scene. They differ by a rotation about z or, if the voxels are random, by the
/// seed.
struct StudyCloud {
  std::string name;
  std::vector<VoxelCloud> variants;
  int64_t voxels() const { return variants.front().count(); }
};

/// Selects a network and the dtype, dataflow and map method to run it with.
struct NetworkCase {
  std::string network = "minkunet42";  ///< Names a built-in network, or describes one as JSON.
  minuet_dtype dtype = MINUET_F16;
  minuet_dataflow dataflow = MINUET_DATAFLOW_AUTO;
  minuet_map_method maps = MINUET_MAPS_AUTO;
};
/// Returns a case with the method of the Minuet paper, which uses sorted keys, the double-traversed binary
/// search and gather-GEMM-scatter.
NetworkCase paper_case(const std::string& network, minuet_dtype dtype);
/// Returns the JSON description of a network with one submanifold layer of kernel size 3.
std::string one_layer(int32_t in_channels, int32_t out_channels);

struct LayerSamples {
  /// The pointers `name` and `kernel` in this struct are null, because the execution that owned the strings
  /// is destroyed.
  minuet_layer_info info;
  std::string name, kernel;
  std::vector<double> gather, gemm, scatter;  ///< These have one time in milliseconds for each run.
  int64_t volume() const;
};

/// Holds one time in milliseconds for each run. `wall` is by the host's clock without profiling, and the
/// times of stages and layers come from profiled runs. `gmas` is the sum of gather, GEMM and scatter, and
/// `sort_map` is the sum of sort and map.
struct NetworkSamples {
  std::vector<double> wall, sort, map, gather, gemm, scatter, other, gmas, sort_map;
  std::vector<LayerSamples> layers;
  std::vector<minuet_level_info> levels;
  /// Counts the work of one inference.
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
};

/// Owns a temporary folder for tuning results. The destructor removes the folder.
class StudyFolder {
 public:
  static llvm::Expected<StudyFolder> create();
  const std::string& path() const { return *path_; }

 private:
  struct Remove {
    void operator()(const std::string* path) const;
  };
  std::unique_ptr<const std::string, Remove> path_;
};

class StudyBench {
 public:
  static llvm::Expected<std::unique_ptr<StudyBench>> open(const StudyOptions& options);

  minuet_context* context() const { return session_.context.get(); }
  minuet_device* device() const { return session_.device.get(); }
  const DeviceFacts& facts() const { return session_.facts; }
  StudySize size() const { return size_; }
  minuet_dtype dtype() const { return dtype_; }
  /// Returns a text about the GPU, such as "the L2 cache has 50 MB here, and 6 MB on the paper's RTX 3090".
  std::string cache_text() const;
  /// Returns the argument for the StudySize of this run.
  template <class T>
  T by_size(T tiny, T small, T full) const {
    return size_ == StudySize::Tiny ? tiny : size_ == StudySize::Small ? small : full;
  }
  /// Returns the number of timed runs of each variant of a scene.
  int repeats() const { return by_size(3, 3, 8); }

  /// Returns the scenes to measure. With StudySize::Full, these are generated scenes and all recorded ones
  /// whose files are in the data folder. With other sizes, they are small generated scenes.
  llvm::Expected<const std::vector<StudyCloud>*> clouds();
  /// Returns the scenes with these names, or only the first scene if no scene has one of these names.
  llvm::Expected<std::vector<const StudyCloud*>> clouds_named(const std::vector<std::string>& names);
  /// Returns random voxels, which are uniform in a cube with edges of `extent` voxels.
  StudyCloud random_cloud(int64_t voxels, int32_t extent) const;
  /// Returns a spherical shell in a cube with edges of `resolution` voxels (make_shell). It has one variant
  /// only, because it may be large.
  StudyCloud shell_cloud(int32_t resolution) const;

  /// Makes networks that are created from now on use these configurations, and the defaults for everything
  /// that `configs` does not have.
  llvm::Error force(const TuningConfigs& configs);

  /// Creates a plan with the tuning results that the context has loaded last, for example by force(). The
  /// plan is neither compiled nor loaded onto the device.
  llvm::Expected<PlanHandle> create_plan(const NetworkCase& network) const;
  llvm::Expected<NetworkSamples> time_network(const NetworkCase& network, const StudyCloud& cloud);

  /// Shows a progress bar from begin() to end().
  void begin(const std::string& what) { progress_.emplace(what); }
  void step(int64_t done, int64_t total) { progress_->step(done, total); }
  void end() { progress_.reset(); }

  /// Returns where a result comes from: device, arch, driver, toolkit, version, dtype and commit.
  llvm::json::Object machine() const;

 private:
  StudyBench() = default;
  llvm::Error find_environment();

  Session session_;
  StudySize size_ = StudySize::Small;
  minuet_dtype dtype_ = MINUET_F32;
  std::string data_, commit_, driver_, toolkit_;
  TuningEnvironment environment_;
  std::optional<std::vector<StudyCloud>> clouds_;
  std::optional<Progress> progress_;
};

/// Counts the steps of a study for the progress bar. The steps should take about equally long.
class StudySteps {
 public:
  StudySteps(StudyBench& bench, size_t total) : bench_(bench), total_(static_cast<int64_t>(total)) {
    bench_.step(0, total_);
  }
  void count() { bench_.step(++done_, total_); }

 private:
  StudyBench& bench_;
  const int64_t total_;
  int64_t done_ = 0;
};

double geometric_mean(const std::vector<double>& values);

}  // namespace minuet::tool
