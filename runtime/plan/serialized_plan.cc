#include "runtime/plan/serialized_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "codegen/base/file_kind.h"
#include "codegen/base/trace.h"
#include "codegen/bundle/bundle_writer.h"
#include "codegen/choose/ops/pointwise.h"
#include "runtime/plan/compiled_plan.h"
#include "runtime/plan/plan_document.h"
#include "runtime/plan/plan_format.h"
#include "runtime/plan/problem_fields.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/weights/rounding.h"

namespace minuet {
namespace {

llvm::Error damaged_plan(const std::string& what) {
  return make_error(StatusCode::InvalidArgument, "the serialized plan is damaged and must be made again: {0}",
                    what);
}

// The following functions write.

/// Returns the first format that has the op of this layer.
std::uint32_t format_of(const ProgramLayer& layer, bool is_network) {
  for (const OpFields& op : fields_of_ops()) {
    if (&op.kind == &layer.problem.kind() && op.format > kOldestPlanFormat) return op.format;
  }
  const WindowProblem* const window = layer.window();
  // A network's padding follows from its description.
  const bool has_new_kernel =
      window != nullptr && (!window->offsets.empty() || (!is_network && window->padding.has_value()));
  const ConvolutionProblem* const convolution = convolution_of(layer);
  const bool is_gradient = convolution != nullptr && convolution->gradient_of.has_value();
  const auto* const chain = layer.problem.get_if<PointwiseProblem>();
  const bool has_gradients = chain != nullptr && llvm::any_of(chain->steps, [](const PointwiseStep& step) {
                               return traits_of(step.kind).is_gradient;
                             });
  return has_new_kernel || is_gradient || has_gradients ? kPlanFormat : kOldestPlanFormat;
}

/// Returns true if a description has fields or outputs of a quantization, which kOldestPlanFormat does not
/// have.
bool describes_quantization(const NetworkDescription& network) {
  const auto is_quantized = [](const ConvolutionFields& fields) {
    return fields.is_int8 || fields.output_range > 0;
  };
  const auto has_quantized = [&](const LayerDescription& layer) {
    return is_quantized(layer.fields) || llvm::any_of(layer.parts, is_quantized);
  };
  const auto is_observed = [](llvm::StringRef output) { return output.consume_front(kLayerOutput); };
  return llvm::any_of(network.layers, has_quantized) || llvm::any_of(network.outputs, is_observed);
}

/// Returns the first format that has everything in the plan, so that all libraries that know its ops read it.
std::uint32_t format_of(const Plan& plan) {
  std::uint32_t format = kOldestPlanFormat;
  for (const ProgramLayer& layer : plan.program.layers)
    format = std::max(format, format_of(layer, plan.network.has_value()));
  const bool makes_levels = llvm::any_of(plan.program.levels, std::mem_fn(&LevelSpec::is_made_in_run));
  const bool is_quantized = plan.network && describes_quantization(plan.network->problem.description);
  return makes_levels || is_quantized ? kPlanFormat : format;
}

void append_values(DType stored, const std::vector<float>& values, std::string& bytes) {
  const std::size_t start = bytes.size();
  bytes.resize(start + values.size() * static_cast<std::size_t>(dtype_bytes(stored)));
  store_values(stored, values.data(), values.size(), bytes.data() + start);
}

std::string write_parameters(const Plan& plan) {
  std::string bytes;
  for (const LayerParameters& layer : plan.parameters) {
    append_values(storage_type(plan.program.dtype), layer.weight, bytes);
    append_values(DType::F32, layer.scale, bytes);
    append_values(DType::F32, layer.shift, bytes);
    append_values(DType::F32, layer.residual_factor, bytes);
  }
  return bytes;
}

/// Returns a bundle of the kernels that the plan needs on `arch`, and describes it in `part`.
llvm::Expected<std::string> bundle_of(const Plan& plan, KernelCache& cache, const std::string& arch,
                                      BundlePart& part) {
  MINUET_ASSIGN(const std::shared_ptr<const CompiledPlan> compiled, CompiledPlan::create(plan, arch));
  const std::vector<KernelRequest> requests = compiled->requests();
  MINUET_ASSIGN(const BinaryList binaries, cache.get_or_compile_all(requests));
  std::vector<Entry> entries;
  std::set<std::string> compilers;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const KernelRequest& request = requests[i];
    const Binary& binary = *binaries[i];
    if (binary.arch != arch) {
      return make_error(StatusCode::FailedPrecondition,
                        "kernel {0} was found in a bundle for {1}, which {2} runs, and not for {2} itself: "
                        "serialize the plan for {1}",
                        binary.display_name, binary.arch, arch);
    }
    entries.push_back(
        {request.key, build_key(request.key, binary.compiler_id), request.source.name_expression, binary});
    compilers.insert(binary.compiler_id);
  }
  MINUET_ASSIGN(std::string bytes, make_bundle(arch, entries));
  part = {arch, bytes.size(), {compilers.begin(), compilers.end()}};
  return bytes;
}

// The following functions read.

/// Returns the error for bytes that do not begin like a serialized plan.
llvm::Error no_plan(llvm::StringRef bytes) {
  if (bytes.take_front(sizeof kBundleMagic) == llvm::StringRef(kBundleMagic, sizeof kBundleMagic)) {
    return make_error(StatusCode::InvalidArgument,
                      "it is a bundle of kernels and not a serialized plan: pass it to "
                      "minuet_context_add_bundle_memory");
  }
  const std::optional<KnownFile> file = identify_file(bytes);
  return make_error(StatusCode::InvalidArgument, "it is {0}not a serialized plan",
                    file ? file->is + ", " : "");
}

/// Checks everything that can be checked without reading the document.
llvm::Expected<PlanHead> read_head(llvm::StringRef bytes) {
  PlanHead head;
  const llvm::StringRef magic(kPlanMagic, sizeof kPlanMagic);
  if (bytes.empty() || bytes.take_front(magic.size()) != magic.take_front(bytes.size()))
    return no_plan(bytes);
  if (bytes.size() < sizeof head + kDigestBytes) return damaged_plan("it was cut short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.format < kOldestPlanFormat || head.format > kPlanFormat) {
    return make_error(
        StatusCode::FailedPrecondition,
        "the serialized plan has format {0}, but this library reads the formats {1} to {2}: {3}", head.format,
        kOldestPlanFormat, kPlanFormat,
        head.format > kPlanFormat
            ? "use a library as new as the one that wrote it, or serialize it again with this "
              "library"
            : "serialize it again with this library");
  }
  // A library reads the plans of all libraries of its minor version whose format it knows.
  if (head.library / 100 != kLibraryVersion / 100) {
    return make_error(
        StatusCode::FailedPrecondition,
        "the serialized plan is of version {0}.{1} of the library, and this is version {2}.{3}: "
        "serialize it again with this library",
        head.library / 10000, head.library / 100 % 100, MINUET_VERSION_MAJOR, MINUET_VERSION_MINOR);
  }
  if (head.file_bytes != bytes.size()) {
    return damaged_plan(
        llvm::formatv("it has {0} bytes, but {1} were written", bytes.size(), head.file_bytes));
  }
  if (digest_of(bytes.drop_back(kDigestBytes)) != bytes.take_back(kDigestBytes)) {
    return damaged_plan("its bytes do not match the digest at its end");
  }
  if (head.document_bytes > bytes.size() - sizeof head - kDigestBytes) {
    return damaged_plan("the size of its document is out of range");
  }
  return head;
}

/// Takes parts from the front of bytes.
class PartReader {
 public:
  explicit PartReader(llvm::StringRef bytes) : rest_(bytes) {}

  llvm::Expected<llvm::StringRef> take(std::uint64_t size) {
    if (size > rest_.size()) return damaged_plan("it ends before its parameters and bundles do");
    const llvm::StringRef part = rest_.take_front(size);
    rest_ = rest_.drop_front(size);
    return part;
  }
  llvm::Expected<std::vector<float>> take_values(DType stored, i64 count) {
    MINUET_ASSIGN(const llvm::StringRef bytes,
                  take(static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(dtype_bytes(stored))));
    std::vector<float> values(static_cast<std::size_t>(count));
    load_values(stored, bytes.data(), values.size(), values.data());
    return values;
  }
  bool is_empty() const { return rest_.empty(); }

 private:
  llvm::StringRef rest_;
};

bool is_int8_weight(float value) {
  return std::abs(value) <= static_cast<float>(largest_integer(DType::S8)) && value == std::nearbyint(value);
}

llvm::Expected<std::vector<LayerParameters>> read_parameters(const Program& program, PartReader& parts) {
  std::vector<LayerParameters> parameters;
  for (const ProgramLayer& layer : program.layers) {
    const ParameterCounts counts = parameter_counts(layer);
    LayerParameters& read = parameters.emplace_back();
    MINUET_ASSIGN(read.weight, parts.take_values(storage_type(program.dtype), counts.weight));
    MINUET_ASSIGN(read.scale, parts.take_values(DType::F32, counts.scale));
    MINUET_ASSIGN(read.shift, parts.take_values(DType::F32, counts.shift));
    if (layer.is_int8 && !llvm::all_of(read.weight, is_int8_weight)) {
      return damaged_plan("the weight of " + layer.name + " has numbers that are not integers of 8 bits");
    }
    MINUET_ASSIGN(read.residual_factor, parts.take_values(DType::F32, counts.residual_factor));
  }
  return parameters;
}

}  // namespace

llvm::Expected<std::string> serialize_plan(const Plan& plan, KernelCache& cache,
                                           const std::vector<std::string>& archs, bool with_values) {
  const Trace::Span span(cache.trace(), "plan", "serialize");
  std::set<std::string> sorted(archs.begin(), archs.end());
  sorted.erase("");
  const bool has_values = plan.has_values && with_values;
  if (!has_values) MINUET_TRY(check_takes_values(plan.program));
  std::vector<BundlePart> parts;
  std::string bundles;
  for (const std::string& arch : sorted) {
    MINUET_ASSIGN(const std::string bundle, bundle_of(plan, cache, arch, parts.emplace_back()));
    bundles += bundle;
  }
  MINUET_ASSIGN(const std::string document, write_document(plan, parts, has_values));
  const std::string parameters = has_values ? write_parameters(plan) : "";
  PlanHead head = {};
  std::copy_n(kPlanMagic, sizeof head.magic, head.magic);
  head.format = format_of(plan);
  head.library = kLibraryVersion;
  head.document_bytes = document.size();
  head.file_bytes = sizeof head + document.size() + parameters.size() + bundles.size() + kDigestBytes;
  std::string bytes;
  bytes.reserve(head.file_bytes);
  bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += document;
  bytes += parameters;
  bytes += bundles;
  return bytes + digest_of(bytes);
}

llvm::Expected<ReadPlan> read_plan(llvm::StringRef bytes) {
  MINUET_ASSIGN(const PlanHead head, read_head(bytes));
  PartReader parts(bytes.drop_front(sizeof head).drop_back(kDigestBytes));
  MINUET_ASSIGN(const llvm::StringRef text, parts.take(head.document_bytes));
  llvm::Expected<PlanDocument> document = read_document(text);
  if (!document) return damaged_plan(take_status(document.takeError()).message());
  ReadPlan read;
  auto plan = std::make_shared<Plan>();
  plan->has_values = document->has_values;
  plan->parameters.resize(document->program.layers.size());
  if (plan->has_values) {
    MINUET_ASSIGN(plan->parameters, read_parameters(document->program, parts));
  } else {
    MINUET_TRY(check_takes_values(document->program));
  }
  for (const BundlePart& bundle : document->bundles) {
    MINUET_ASSIGN(const llvm::StringRef part, parts.take(bundle.bytes));
    read.bundles.push_back({part, ""});
  }
  if (!parts.is_empty()) return damaged_plan("bytes follow its last bundle");
  plan->program = std::move(document->program);
  plan->network = std::move(document->network);
  plan->tuning = std::move(document->tuning);
  read.plan = std::move(plan);
  return read;
}

llvm::Expected<std::shared_ptr<const Plan>> deserialize_plan(llvm::StringRef bytes, KernelCache& cache) {
  const Trace::Span span(cache.trace(), "plan", "deserialize");
  MINUET_ASSIGN(ReadPlan read, read_plan(bytes));
  MINUET_TRY(cache.add_bundle_memory(read.bundles));
  return std::move(read.plan);
}

}  // namespace minuet
