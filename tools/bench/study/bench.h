// What all studies measure with: a device, clouds, and networks whose kernels and grouping may be forced.
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

/// How much is measured: what the tests run, what a CPU does in a minute or two, what the paper has.
enum class StudySize { Tiny, Small, Full };

/// The values of the flags.
struct StudyOptions {
  std::vector<std::string> names;  ///< "all": every one
  std::string output;              ///< a folder
  std::string size;                ///< tiny, small or full; empty: by the device
  std::string dtype, cache, data, commit;
  DeviceChoice device;
};

/// A scene, as a few clouds that are turned otherwise, or drawn by another seed.
struct StudyCloud {
  std::string name;
  std::vector<VoxelCloud> variants;
  int64_t voxels() const { return variants.front().count(); }
};

/// A network, and how it runs.
struct NetworkCase {
  std::string network = "minkunet42";  ///< a shipped name, or a description as JSON
  minuet_dtype dtype = MINUET_F16;
  minuet_dataflow dataflow = MINUET_DATAFLOW_AUTO;
  minuet_map_method maps = MINUET_MAPS_AUTO;
};
/// The paper's road: sorted keys, double-traversed search, gather-GEMM-scatter.
NetworkCase paper_case(const std::string& network, minuet_dtype dtype);
/// One submanifold layer of kernel 3.
std::string one_layer(int32_t in_channels, int32_t out_channels);

struct LayerSamples {
  minuet_layer_info info;  ///< `name` and `kernel` are null: their owner is gone
  std::string name, kernel;
  std::vector<double> gather, gemm, scatter;  ///< ms
  int64_t volume() const;
};

/// Milliseconds, one number a run: by the host's clock without profiling, stages and layers with it.
struct NetworkSamples {
  std::vector<double> wall, sort, map, gather, gemm, scatter, other,
      gmas,      ///< gather, GEMM and scatter
      sort_map;  ///< sort and map
  std::vector<LayerSamples> layers;
  std::vector<minuet_level_info> levels;
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;  ///< of one inference
};

/// A temporary folder for tuning results, gone with its owner.
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
  /// "its L2 cache has 50 MB, that of the paper's RTX 3090 6 MB"; of a GPU.
  std::string cache_text() const;
  /// One value for each size.
  template <class T>
  T by_size(T tiny, T small, T full) const {
    return size_ == StudySize::Tiny ? tiny : size_ == StudySize::Small ? small : full;
  }
  /// Timed runs of each variant.
  int repeats() const { return by_size(3, 3, 8); }

  /// The scenes: the real ones that there are and the generated ones, or small generated ones.
  llvm::Expected<const std::vector<StudyCloud>*> clouds();
  /// The scenes of these names; the first of all where there is none of them.
  llvm::Expected<std::vector<const StudyCloud*>> clouds_named(const std::vector<std::string>& names);
  /// Uniform in a cube; `extent` voxels an edge.
  StudyCloud random_cloud(int64_t voxels, int32_t extent) const;
  /// Of a sphere in a cube of `resolution` voxels an edge (make_shell): one variant, for it may be large.
  StudyCloud shell_cloud(int32_t resolution) const;

  /// Networks from here on are made by these configurations, and else by default.
  llvm::Error force(const TuningConfigs& configs);

  /// By what force() or tuning results say; neither compiled nor loaded.
  llvm::Expected<PlanHandle> create_plan(const NetworkCase& network) const;
  llvm::Expected<NetworkSamples> time_network(const NetworkCase& network, const StudyCloud& cloud);

  /// What is shown while it is waited for, from begin() to end().
  void begin(const std::string& what) { progress_.emplace(what); }
  void step(int64_t done, int64_t total) { progress_->step(done, total); }
  void end() { progress_.reset(); }

  /// What says where a result comes from: device, arch, driver, toolkit, version, dtype, commit.
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

/// Steps of a study that take about as long each, for who waits.
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
