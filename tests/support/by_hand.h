// MinkUNet42 of single convolutions, as a framework would call them through the C ABI: sets, maps, executions
// and the places of concatenations by hand. Nothing of the library's own network is used.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "include/minuet/pyramid.h"
#include "tests/support/abi.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {

using Queue = Handle<minuet_queue>;
Queue make_queue(Machine& machine, void* stream = nullptr);

class ByHand {
 public:
  /// One a layer.
  using Plans = std::vector<std::shared_ptr<minuet_plan>>;

  /// `tensors`: a weights file of MinkUNet42, without a head. `queue` may be null. `plans`: of another one of
  /// the same machine, dtype, widths and tensors, or none, which are made.
  ByHand(Machine& machine, DType dtype, const std::vector<int32_t>& widths,
         const std::map<std::string, FileTensor>& tensors, minuet_queue* queue, void* stream = nullptr,
         Plans plans = {}, minuet_dataflow dataflow = tested_dataflow());
  const Plans& plans() const { return plans_; }
  /// Sets, maps, every layer; with a queue all layers together. Device int32 [count, 4].
  void prepare(const int32_t* coordinates, int64_t count);
  /// Both.
  void infer(const int32_t* coordinates, int64_t count, void* features, void* output);
  /// [count, 4] to [count, widths.back()], in the order of the coordinates.
  void run(void* features, void* output);
  /// The same layers on a pyramid with room for `capacities` voxels of each level, in place of prepare() and
  /// run(). Between layers the rows of level 0 are in the set's order.
  void use_pyramid(const std::vector<int64_t>& capacities);
  /// Sets and maps of the count at `count`, device memory; all memory has room for the capacity of level 0.
  void build_pyramid(const int32_t* coordinates, const int32_t* count);
  void run_on_pyramid(void* features, void* output);
  /// One layer, for the last prepare's maps.
  minuet_status prepare_layer(size_t layer);
  size_t layers() const { return layers_.size(); }
  size_t sets() const { return sets_.size(); }
  /// Those whose pairs are read where convolutions ask for them: a transposed map has its forward one's, and
  /// one offset onto itself is known.
  static constexpr size_t kSearchedMaps = 9;

 private:
  struct Matrix {
    int level = 0;
    int channels = 0;  // of a whole row
    int64_t rows = 0;
    std::unique_ptr<Buffer> memory;
  };
  struct Tensor {
    size_t matrix = 0;
    int column = 0, channels = 0;
  };
  struct Layer {
    Execution execution{nullptr, {minuet_execution_destroy}};
    size_t map = 0;
    Tensor input, output, residual;
    bool has_residual = false;
  };

  Tensor add_tensor(int level, int channels);
  int level_of(const Tensor& tensor) const { return matrices_[tensor.matrix].level; }
  void add_layer(const std::string& convolution, const std::string& batch_norm,
                 minuet_convolution_options options, size_t map, const Tensor& input, const Tensor& output,
                 const Tensor* residual = nullptr);
  std::shared_ptr<minuet_plan> make_plan(const std::string& convolution, const std::string& batch_norm,
                                         minuet_convolution_options options, const Tensor& input,
                                         const Tensor& output, bool has_residual) const;
  Tensor submanifold(const std::string& name, const Tensor& input, const Tensor& output);
  Tensor down(const std::string& name, const Tensor& input, const Tensor& output);
  void up(const std::string& name, const Tensor& input, const Tensor& output);
  Tensor residual(const std::string& name, const Tensor& input, const Tensor& output);
  const std::vector<float>& values(const std::string& name) const { return tensors_.at(name).values; }
  void make_level(int level, const int32_t* coordinates, int64_t count);
  void make_maps(int level);
  void make_geometry(const int32_t* coordinates, int64_t count);
  void run_layer(Layer& layer, void* features, void* output);
  minuet_run_arguments arguments_of(size_t layer) const;
  minuet_tensor view(const Tensor& tensor) const;

  Machine& machine_;
  const DType dtype_;
  const minuet_dataflow dataflow_;
  const std::map<std::string, FileTensor>& tensors_;
  minuet_queue* queue_;
  void* stream_;
  Plans plans_;
  std::vector<Matrix> matrices_;
  std::vector<Layer> layers_;
  std::vector<Coordinates> sets_;  // by level
  std::vector<KernelMap> maps_;
  Handle<minuet_pyramid> pyramid_{nullptr, {minuet_pyramid_destroy}};
  std::unique_ptr<Buffer> buffer_, workspace_, run_workspace_;
  int64_t capacity_ = 0;  // of level 0
};

}  // namespace minuet::abi
