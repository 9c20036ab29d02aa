// A training step of a network in fp64 by plain loops: outputs, running statistics and all gradients,
// straight from the JSON description. Shares no code with the library. Values and their gradients are rounded
// to the dtype where the library stores them, so that a ReLU passes the same elements.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels_templates/shared/types.h"
#include "llvm/Support/JSON.h"
#include "tests/support/oracle.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::oracle {

struct TrainingStepOptions {
  DType dtype = DType::F32;
  bool has_frozen_norms = false;
  double momentum = 0.1;
};

/// A matrix on a level, and the gradient of the loss with respect to it.
struct Value {
  int level = 0;
  int64_t channels = 0;
  std::vector<double> values, gradients;  // [rows, channels]
};

class TrainingStep {
 public:
  /// Computes the outputs. `inputs` lie on level 0, in the order of the coordinates.
  TrainingStep(const std::string& description, const std::map<std::string, FileTensor>& parameters,
               const std::vector<int32_t>& coordinates, const std::vector<std::vector<float>>& inputs,
               const TrainingStepOptions& options);

  const Value& output(size_t number) const { return *outputs_[number]; }
  const Value& input(size_t number) const { return *inputs_[number]; }
  const std::vector<int32_t>& coordinates(int level) const { return levels_[level].coordinates; }
  /// Computes all gradients from those of the outputs, of which an empty one stands for zeros.
  void backward(const std::vector<std::vector<float>>& out_gradients);
  /// The gradient of a parameter, as large as the parameter.
  const std::vector<double>& gradient(const std::string& parameter) { return gradients_[parameter]; }
  /// The new running statistics by their names.
  const std::map<std::string, std::vector<double>>& statistics() const { return statistics_; }

 private:
  using Tensor = std::shared_ptr<Value>;
  using Object = llvm::json::Object;
  struct Level {
    std::vector<int32_t> coordinates;
    Axes tensor_stride{1, 1, 1, 1};
    int64_t rows = 0;
  };
  struct Map {
    int fine = 0, coarse = 0;
    Axes kernel_size{1, 1, 1, 1}, dilation{1, 1, 1, 1};
    Axes stride{1, 1, 1, 1};
    bool starts_at_zero = false;  // the offsets cover a cell of the coarser level
  };

  void run(const Object& layer);
  void run_other(const Object& layer, const std::string& op);
  void block(const Object& layer);
  void residual(const Object& layer, bool is_bottleneck);
  int level_below(int level, const Axes& stride);
  Map map_below(int level, const Object& layer, const Axes& stride);
  Axes axes(const Object& layer, const char* field, int usual) const;
  int64_t width(const Object& layer, const char* index, const char* number) const;
  Tensor new_value(int level, int64_t channels) const;
  std::vector<Pair> pairs_of(const Map& map, bool transposed) const;
  /// Rounds the result, and appends the rule of its gradient, which runs after that of all later ops.
  Tensor finish(Tensor result, std::function<void()> rule);
  Tensor convolve(const Tensor& x, const std::string& name, int64_t out, const Map& map, bool transposed,
                  bool has_bias);
  /// act(norm(x) + other), of which each part may be missing.
  Tensor normalize_and_activate(Tensor x, const Object& fields, const std::string& norm, const Tensor& other,
                                const std::string& activation, double slope);
  Tensor normalize(const Tensor& x, const std::string& name, double epsilon, bool is_affine,
                   const Tensor& other, bool has_relu);
  Tensor add(const Tensor& x, const Tensor& other, bool has_relu);
  Tensor multiply(const Tensor& x, const Tensor& other);
  Tensor activate(const Tensor& x, const std::string& function, double number);
  Tensor softmax(const Tensor& x);
  Tensor scale(const Tensor& x, const std::string& name, double epsilon, bool normalizes, bool is_affine);
  Tensor concat(const Tensor& first, const Tensor& second);
  Tensor pool(const Tensor& x, const Map& map, bool transposed, const std::string& reduction);
  double round(double value) const;
  double operand(double value) const;
  const std::vector<float>& parameter(const std::string& name) const;
  std::vector<double>& gradient_of(const std::string& name, size_t size);

  TrainingStepOptions options_;
  llvm::json::Value description_;
  const std::map<std::string, FileTensor>& parameters_;
  int ndim_ = 3;
  std::vector<int64_t> channels_;
  double epsilon_ = 1e-5;
  std::vector<Level> levels_;
  std::map<std::string, Tensor> results_;
  std::map<std::string, Map> maps_;  // of blocks and poolings by name
  Tensor current_;
  std::vector<Tensor> inputs_, outputs_, values_;
  std::vector<std::function<void()>> rules_;
  std::map<std::string, std::vector<double>> gradients_, statistics_;
};

}  // namespace minuet::oracle
