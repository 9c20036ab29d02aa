#include "codegen/choose/tuning_key.h"

#include "codegen/choose/ops/convolution.h"

#include <iterator>

#include "codegen/base/sha256.h"

namespace minuet {
namespace {

constexpr const char* kOperations[] = {"search",   "gather", "scatter", "grouping",        "fused",
                                       "dataflow", "gemm",   "order",   "weight_gradient", "input_gradient"};
constexpr const char* kKeyTypes[] = {"u32", "u64"};
constexpr const char* kKinds[] = {"submanifold", "strided", "given_outputs", "transposed"};

template <class Enumeration, std::size_t Count>
llvm::Error read_name(llvm::StringRef text, const char* const (&names)[Count], Enumeration& value) {
  for (std::size_t i = 0; i < Count; ++i) {
    if (text != names[i]) continue;
    value = static_cast<Enumeration>(i);
    return llvm::Error::success();
  }
  return make_error(StatusCode::InvalidArgument, "the value '{0}' is unknown to this library", text);
}

template <class Fields>
std::string hash_of(FieldHasher hasher, const Fields& fields) {
  Fields::visit(fields, [&](const char* name, const auto& value) { hasher.add(name, tuning_text(value)); });
  return hasher.hex();
}

FieldHasher start_hash(llvm::StringRef what) {
  FieldHasher hasher;
  hasher.add("tuning", what).add("schema", std::to_string(kTuningSchema));
  return hasher;
}

i64 log2_of(i64 rows) {
  i64 log2 = kAnyRows;
  for (; rows > 0; rows /= 2) ++log2;
  return log2;
}

}  // namespace

std::string environment_hash(const TuningEnvironment& environment) {
  return hash_of(start_hash("environment"), environment);
}

std::string bucket_hash(const TuningBucket& bucket) {
  return hash_of(start_hash(operation_name(bucket.operation)), bucket);
}

const char* operation_name(Operation operation) {
  const auto number = static_cast<std::size_t>(operation);
  return number < std::size(kOperations) ? kOperations[number] : "unknown";
}

std::string toolkit_of(llvm::StringRef compiler_id) {
  return compiler_id.split(' ').second.split(' ').first.str();
}

TuningBucket gather_bucket(DType dtype, i64 in_channels, i64 volume, i64 rows) {
  TuningBucket bucket;
  bucket.operation = Operation::Gather;
  bucket.dtype = dtype;
  bucket.channels = in_channels;
  bucket.volume = volume;
  bucket.log2_rows = log2_of(rows);
  return bucket;
}

TuningBucket scatter_bucket(DType dtype, i64 out_channels, i64 volume, i64 rows) {
  TuningBucket bucket = gather_bucket(dtype, out_channels, volume, rows);
  bucket.operation = Operation::Scatter;
  return bucket;
}

TuningBucket gemm_bucket(DType dtype, i64 in_channels, i64 out_channels, i64 volume, i64 rows) {
  TuningBucket bucket = gather_bucket(dtype, in_channels, volume, rows);
  bucket.operation = Operation::Gemm;
  bucket.out_channels = out_channels;
  return bucket;
}

TuningBucket search_bucket(KeyType key, i32 ndim, i64 volume, i64 rows) {
  TuningBucket bucket;
  bucket.operation = Operation::Search;
  bucket.key = key;
  bucket.ndim = ndim;
  bucket.volume = volume;
  bucket.log2_rows = log2_of(rows);
  return bucket;
}

TuningBucket grouping_bucket(DType dtype, i64 volume, i64 rows) {
  TuningBucket bucket;
  bucket.operation = Operation::Grouping;
  bucket.dtype = dtype;
  bucket.volume = volume;
  bucket.log2_rows = log2_of(rows);
  return bucket;
}

TuningBucket order_bucket(DType dtype, i64 volume, i64 rows) {
  TuningBucket bucket = grouping_bucket(dtype, volume, rows);
  bucket.operation = Operation::Order;
  return bucket;
}

TuningBucket layer_bucket(Operation operation, const ConvolutionProblem& problem, i64 rows,
                          std::optional<double> density) {
  TuningBucket bucket =
      gather_bucket(input_type_of(problem), problem.in_channels, kernel_volume(problem), rows);
  bucket.operation = operation;
  bucket.out_channels = problem.out_channels;
  bucket.kind = problem.kind;
  const bool is_gradient = operation == Operation::Fused && problem.gradient_of;
  if (is_gradient) {
    bucket.operation = Operation::InputGradient;
    // The same kernels compute the gradient in either direction of the map (input_gradient_within()).
    bucket.kind = swapped_kind(forward_of(problem));
  }
  if (density && !is_gradient) bucket.log4_density = log4_of(*density);
  return bucket;
}

TuningBucket weight_gradient_bucket(const ConvolutionProblem& forward, i64 rows,
                                    std::optional<double> density) {
  TuningBucket bucket = layer_bucket(Operation::WeightGradient, forward, rows, density);
  bucket.channels /= forward.groups;
  bucket.out_channels /= forward.groups;
  return bucket;
}

std::vector<TuningBucket> buckets_of_layer(const ConvolutionProblem& problem, i64 rows,
                                           std::optional<double> density) {
  if (!is_tunable(problem)) return {};
  const TuningBucket fused = layer_bucket(Operation::Fused, problem, rows, density);
  if (!has_tunable_dataflow(problem)) return {fused};
  const i64 volume = kernel_volume(problem);
  return {layer_bucket(Operation::Dataflow, problem, rows, density), fused,
          gather_bucket(problem.dtype, problem.in_channels, volume, rows),
          scatter_bucket(problem.dtype, problem.out_channels, volume, rows),
          gemm_bucket(problem.dtype, problem.in_channels, problem.out_channels, volume, rows)};
}

std::string tuning_text(const std::string& value) { return value; }
std::string tuning_text(i64 value) { return std::to_string(value); }
std::string tuning_text(DType value) { return kDTypeNames[static_cast<int>(value)]; }
std::string tuning_text(KeyType value) { return kKeyTypes[static_cast<int>(value)]; }
std::string tuning_text(ConvolutionKind value) { return kKinds[static_cast<int>(value)]; }

llvm::Error read_tuning_text(llvm::StringRef text, DType& value) {
  return read_name(text, kDTypeNames, value);
}
llvm::Error read_tuning_text(llvm::StringRef text, KeyType& value) {
  return read_name(text, kKeyTypes, value);
}
llvm::Error read_tuning_text(llvm::StringRef text, ConvolutionKind& value) {
  return read_name(text, kKinds, value);
}
llvm::Error read_tuning_text(llvm::StringRef text, Operation& value) {
  return read_name(text, kOperations, value);
}

}  // namespace minuet
