#include "runtime/weights/torch_tensors.h"

#include <optional>

namespace minuet {
namespace {

constexpr std::size_t kMostAxes = 64;  // PyTorch has this limit.
constexpr int kDeepestCall = 4;        // A tensor lies in a parameter, which may lie in a call by type.

/// Describes a call of one of the functions that make a tensor of a storage, and the arguments.
struct TensorCall {
  std::string function;
  const PickleNode* arguments = nullptr;
};

bool is_parameter_function(llvm::StringRef name) {
  return name == "torch._utils._rebuild_parameter" || name == "torch._utils._rebuild_parameter_with_state";
}

bool is_tensor_function(llvm::StringRef name) {
  return name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2" ||
         name == "torch._utils._rebuild_tensor_v3";
}

/// Returns true for a call after which the pickle sets neither attributes nor items of the object, which
/// could make another tensor of it.
bool is_plain_call(const PickleNode& node) {
  return node.kind == PickleKind::Call && !node.has_state && node.parts.size() == kPartsOfCall;
}

/// Returns the call that makes the tensor of a node, which a parameter or a call by type may wrap.
std::optional<TensorCall> find_tensor_call(const Pickle& pickle, const PickleNode& node) {
  if (!is_plain_call(node)) return std::nullopt;
  TensorCall call{global_name(pickle, pickle.part(node, 0)), &pickle.part(node, 1)};
  for (int depth = 0; depth < kDeepestCall; ++depth) {
    const PickleNode& arguments = *call.arguments;
    if (arguments.kind != PickleKind::Tuple) return std::nullopt;
    if (is_tensor_function(call.function)) return call;
    if (is_parameter_function(call.function) && !arguments.parts.empty()) {
      const PickleNode& tensor = pickle.part(arguments, 0);
      if (!is_plain_call(tensor)) return std::nullopt;
      call = {global_name(pickle, pickle.part(tensor, 0)), &pickle.part(tensor, 1)};
    } else if (call.function == "torch._tensor._rebuild_from_type_v2" && arguments.parts.size() > 2) {
      const std::string type = global_name(pickle, pickle.part(arguments, 1));
      if (type != "torch.Tensor" && type != "torch.nn.parameter.Parameter") return std::nullopt;
      call = {global_name(pickle, pickle.part(arguments, 0)), &pickle.part(arguments, 2)};
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Reads a tuple of integers or a torch.Size.
llvm::Expected<std::vector<std::int64_t>> read_sizes(const Pickle& pickle, const PickleNode& node,
                                                     const char* what) {
  const PickleNode* list = &node;
  if (node.kind == PickleKind::Call && global_name(pickle, pickle.part(node, 0)) == "torch.Size" &&
      pickle.part(node, 1).parts.size() == 1) {
    list = &pickle.part(pickle.part(node, 1), 0);
  }
  std::vector<std::int64_t> sizes;
  bool is_right = list->kind == PickleKind::Tuple && list->parts.size() <= kMostAxes;
  for (std::size_t i = 0; is_right && i < list->parts.size(); ++i) {
    const PickleNode& size = pickle.part(*list, i);
    is_right = size.kind == PickleKind::Integer && size.integer >= 0;
    sizes.push_back(size.integer);
  }
  if (is_right) return sizes;
  return make_error(StatusCode::InvalidArgument,
                    "its {0} is not a tuple of at most {1} numbers of at least 0", what, kMostAxes);
}

/// Checks that the elements from `offset` on lie within a storage of `elements` elements.
llvm::Error check_reach(const StoredTensor& tensor, std::uint64_t offset, std::uint64_t elements) {
  std::uint64_t last = offset;
  for (std::size_t axis = 0; axis < tensor.shape.size() && last < elements; ++axis) {
    const auto steps = static_cast<std::uint64_t>(tensor.shape[axis] - 1);
    const auto stride = static_cast<std::uint64_t>(tensor.strides[axis]);
    last = stride != 0 && steps > elements / stride ? elements : last + steps * stride;
  }
  if (last < elements) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "its shape {0} and stride {1} reach past the end of its storage of {2} elements",
                    shape_text(tensor.shape), shape_text(tensor.strides), elements);
}

/// Checks that no two indices have the same element. A step along an axis must lead past everything that the
/// axes of smaller strides reach, which holds for every slice and transposition of a contiguous tensor.
llvm::Error check_overlap(const StoredTensor& tensor) {
  std::vector<std::size_t> axes;  // Holds the axes of several elements in ascending order of their strides.
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis] < 2) continue;
    axes.push_back(axis);
    for (std::size_t i = axes.size() - 1; i > 0; --i) {
      if (tensor.strides[axes[i]] < tensor.strides[axes[i - 1]]) std::swap(axes[i], axes[i - 1]);
    }
  }
  std::int64_t reach = 0;
  for (const std::size_t axis : axes) {
    if (tensor.strides[axis] <= reach) {
      return make_error(StatusCode::InvalidArgument,
                        "with its stride {0}, elements of different indices are one element of the storage: "
                        "save a contiguous() copy of the tensor",
                        shape_text(tensor.strides));
    }
    reach += tensor.strides[axis] * (tensor.shape[axis] - 1);
  }
  return llvm::Error::success();
}

bool is_row_major(const StoredTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

/// Returns the type of the tensor's elements. The third version of the function has it as an argument,
/// because its storage is untyped.
llvm::Expected<const TorchType*> type_of(const Pickle& pickle, const TensorCall& call,
                                         const TorchStorage& storage) {
  constexpr std::size_t kTypeArgument = 6;
  if (call.function != "torch._utils._rebuild_tensor_v3") return storage.type;
  if (call.arguments->parts.size() > kTypeArgument) {
    const std::string name = global_name(pickle, pickle.part(*call.arguments, kTypeArgument));
    llvm::StringRef dtype = name;
    if (dtype.consume_front("torch.")) {
      if (const TorchType* const type = find_torch_dtype(dtype)) return type;
    }
  }
  return make_error(StatusCode::InvalidArgument, "it has no dtype that can be read");
}

/// Returns an error if the tensor has metadata, which PyTorch stores for a tensor whose numbers are those in
/// memory with the opposite sign, or the complex conjugates.
llvm::Error check_metadata(const Pickle& pickle, const TensorCall& call) {
  const std::size_t place = call.function == "torch._utils._rebuild_tensor_v3" ? 7 : 6;
  if (call.arguments->parts.size() <= place) return llvm::Error::success();
  const PickleNode& metadata = pickle.part(*call.arguments, place);
  const bool is_empty =
      metadata.kind == PickleKind::None || (metadata.kind == PickleKind::Dict && metadata.parts.empty());
  if (is_empty) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument,
      "it has metadata, such as a pending change of signs: save tensor.resolve_neg() or a clone of it");
}

}  // namespace

bool is_torch_tensor(const Pickle& pickle, const PickleNode& node) {
  return find_tensor_call(pickle, node).has_value();
}

llvm::Expected<StoredTensor> read_torch_tensor(TorchArchive& archive, const PickleNode& node) {
  const Pickle& pickle = archive.object();
  const std::optional<TensorCall> call = find_tensor_call(pickle, node);
  if (!call || call->arguments->parts.size() < 4)
    return make_error(StatusCode::InvalidArgument, "it is not as torch.save writes tensors");
  const auto argument = [&](std::size_t index) -> const PickleNode& {
    return pickle.part(*call->arguments, index);
  };
  MINUET_TRY(check_metadata(pickle, *call));
  MINUET_ASSIGN(const TorchStorage storage, read_storage(pickle, argument(0)));
  MINUET_ASSIGN(const TorchType* const type, type_of(pickle, *call, storage));
  const PickleNode& offset = argument(1);
  StoredTensor tensor;
  tensor.type = type->type;
  MINUET_ASSIGN(tensor.shape, read_sizes(pickle, argument(2), "shape"));
  MINUET_ASSIGN(tensor.strides, read_sizes(pickle, argument(3), "stride"));
  if (offset.kind != PickleKind::Integer || offset.integer < 0 ||
      tensor.shape.size() != tensor.strides.size())
    return make_error(StatusCode::InvalidArgument, "its offset or the number of its strides is wrong");
  MINUET_ASSIGN(const std::uint64_t count, checked_count(tensor.shape));
  MINUET_ASSIGN(const llvm::StringRef bytes, archive.bytes_of(storage));
  tensor.data = bytes.data();
  if (count != 0) {
    const auto element = static_cast<std::uint64_t>(type->bytes);
    const auto first = static_cast<std::uint64_t>(offset.integer);
    MINUET_TRY(check_reach(tensor, first, bytes.size() / element));
    MINUET_TRY(check_overlap(tensor));
    tensor.data += first * element;
  }
  if (count == 0 || is_row_major(tensor)) tensor.strides.clear();
  return tensor;
}

}  // namespace minuet
