#include "runtime/weights/foreign_weights.h"

#include "codegen/base/file_kind.h"

namespace minuet {

llvm::Error refuse_foreign_weights(llvm::StringRef bytes) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || file->kind == FileKind::Safetensors) return llvm::Error::success();
  if (file->kind == FileKind::TorchZip || file->kind == FileKind::Pickle) {
    return make_error(
        StatusCode::InvalidArgument,
        "it is a PyTorch checkpoint, not a safetensors file; convert it in Python: "
        "safetensors.torch.save_file({{k: v.contiguous() for k, v in torch.load(\"in.pth\", "
        "map_location=\"cpu\").items()}, \"out.safetensors\"), with [\"state_dict\"] or [\"model\"] "
        "after torch.load(...) if the checkpoint contains more than tensors");
  }
  return make_error(StatusCode::InvalidArgument, "{0}",
                    other_file_text(*file, WantedFile::Weights, "a safetensors file"));
}

}  // namespace minuet
