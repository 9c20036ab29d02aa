#include "runtime/plan/plan_document.h"

#include "codegen/base/json_text.h"
#include "codegen/choose/tuning_key.h"
#include "codegen/tuning/tuned_kernels.h"
#include "minuet/minuet.h"
#include "runtime/plan/ops/convolution.h"
#include "runtime/plan/problem_fields.h"

namespace minuet {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

constexpr const char* kNetwork = "network";

std::string library_text() {
  return std::to_string(MINUET_VERSION_MAJOR) + "." + std::to_string(MINUET_VERSION_MINOR) + "." +
         std::to_string(MINUET_VERSION_PATCH) + MINUET_VERSION_SUFFIX;
}

Object write_network(const NetworkRecord& network) {
  Object heads;
  for (const auto& [name, channels] : network.head_channels) heads[name] = channels;
  const NetworkProblem& problem = network.problem;
  return Object{{"kind", kNetwork},
                {"description", problem.description.json},
                {"dtype", tuning_text(problem.dtype)},
                {"channels", Array(problem.channels)},
                {"ndim", problem.ndim},
                {"shape", Array(problem.shape)},
                {"in_channels", problem.in_channels},
                {"dataflow", requested_dataflow_name(problem.dataflow)},
                {"head_channels", std::move(heads)}};
}

llvm::Expected<NetworkRecord> read_network_record(const Object& object) {
  NetworkRecord network;
  NetworkProblem& problem = network.problem;
  FieldReader fields(object);
  const std::string description = fields.text("description");
  if (llvm::errorToBool(read_tuning_text(fields.text("dtype"), problem.dtype))) fields.fail("dtype");
  problem.channels = fields.integers("channels", 1, kMostChannels);
  problem.ndim = fields.integer32("ndim", 0, kMaxDim);
  problem.shape = fields.integers("shape", 1, kMostCells);
  problem.in_channels = fields.integer32("in_channels", 0, kMostChannels);
  problem.dataflow = read_requested_dataflow(fields, "dataflow");
  if (const Object* const heads = fields.object("head_channels")) {
    FieldReader channels(*heads);
    for (const auto& head : *heads) {
      network.head_channels[head.first.str()] = channels.integer32(head.first, 0, kMostChannels);
    }
    MINUET_TRY(channels.error());
  }
  MINUET_TRY(fields.error());
  MINUET_ASSIGN(problem.description, parse_network(description));
  return network;
}

/// Returns the fields of the only op of a plan.
llvm::Expected<Object> write_only_op(const OpProblem& op) {
  const auto* const convolution = op.get_if<ConvolutionProblem>();
  if (convolution != nullptr && has_integers(*convolution)) {
    return make_error(StatusCode::Unimplemented,
                      "a plan of one convolution with 8-bit tensors cannot be serialized: serialize the plan "
                      "of a network, whose description has their types and scales");
  }
  return write_op(op);
}

Array write_tuning_layers(const TuningSnapshot* tuning) {
  Array layers;
  if (tuning == nullptr) return layers;
  for (const TuningLayer& layer : tuning->layers()) {
    layers.push_back(Object{{"name", layer.name}, {"results", write_tuning(layer.entries)}});
  }
  return layers;
}

llvm::Expected<std::shared_ptr<const TuningSnapshot>> read_tuning_layers(const Array& given) {
  std::vector<TuningLayer> layers;
  std::optional<TuningEnvironment> environment;
  for (const Value& element : given) {
    const Object* const object = element.getAsObject();
    if (object == nullptr) return make_error(StatusCode::InvalidArgument, "a tuning result is not an object");
    FieldReader fields(*object);
    TuningLayer& layer = layers.emplace_back();
    layer.name = fields.text("name");
    const std::string results = fields.text("results");
    MINUET_TRY(fields.error());
    MINUET_ASSIGN(layer.entries, read_tuning(results));
    std::erase_if(layer.entries, [](const TuningEntry& entry) { return !is_of_this_build(entry); });
    if (!environment && !layer.entries.empty()) environment = layer.entries.front().environment;
  }
  if (!environment) return nullptr;
  return std::make_shared<const TuningSnapshot>(*environment, layers);
}

Array write_bundles(const std::vector<BundlePart>& bundles) {
  Array parts;
  for (const BundlePart& bundle : bundles) {
    parts.push_back(Object{{"arch", bundle.arch},
                           {"bytes", static_cast<std::int64_t>(bundle.bytes)},
                           {"compilers", Array(bundle.compilers)}});
  }
  return parts;
}

llvm::Expected<std::vector<BundlePart>> read_bundles(const Array& parts) {
  std::vector<BundlePart> bundles;
  for (const Value& element : parts) {
    const Object* const object = element.getAsObject();
    if (object == nullptr) return make_error(StatusCode::InvalidArgument, "a bundle is not an object");
    FieldReader fields(*object);
    BundlePart& bundle = bundles.emplace_back();
    bundle.arch = fields.text("arch");
    bundle.bytes = static_cast<std::uint64_t>(fields.integer("bytes", 0, i64{1} << 40));
    MINUET_TRY(fields.error());
  }
  return bundles;
}

}  // namespace

llvm::Expected<std::string> write_document(const Plan& plan, const std::vector<BundlePart>& bundles,
                                           bool has_values) {
  Object problem;
  if (plan.network) {
    problem = write_network(*plan.network);
  } else {
    MINUET_ASSIGN(problem, write_only_op(plan.program.layers[0].problem));
  }
  return print_json(Object{{"library", library_text()},
                           {"problem", std::move(problem)},
                           {"tuning", write_tuning_layers(plan.tuning.get())},
                           {"bundles", write_bundles(bundles)},
                           {"values", has_values}});
}

llvm::Expected<PlanDocument> read_document(llvm::StringRef text) {
  llvm::Expected<Value> value = parse_json(text);
  if (!value) {
    return make_error(StatusCode::InvalidArgument, "its document is not JSON: {0}",
                      llvm::toString(value.takeError()));
  }
  const Object* const root = value->getAsObject();
  if (root == nullptr) return make_error(StatusCode::InvalidArgument, "its document is not a JSON object");
  FieldReader fields(*root);
  const Object* const problem = fields.object("problem");
  const Array* const tuning = fields.array("tuning");
  const Array* const bundles = fields.array("bundles");
  PlanDocument document;
  document.has_values = fields.flag("values");
  MINUET_TRY(fields.error());
  MINUET_ASSIGN(document.tuning, read_tuning_layers(*tuning));
  MINUET_ASSIGN(document.bundles, read_bundles(*bundles));
  if (text_or_empty(*problem, "kind") == kNetwork) {
    MINUET_ASSIGN(document.network, read_network_record(*problem));
    MINUET_ASSIGN(document.program, rebuild_program(*document.network));
  } else {
    MINUET_ASSIGN(const OpProblem op, read_op_problem(*problem));
    document.program = op_program(op);
  }
  return document;
}

}  // namespace minuet
