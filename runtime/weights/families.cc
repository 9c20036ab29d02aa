// Defines the table of the op families (OpFamily) that have parameters. A test may link a table of its own
// instead.
#include "codegen/choose/ops/depthwise.h"
#include "codegen/choose/ops/pointwise.h"
#include "runtime/weights/weight_image.h"

namespace minuet {

llvm::ArrayRef<ImagesOfFamily> images_of_families() {
  static const ImagesOfFamily families[] = {
      {GmasChoice::kKind, gmas_images},
      {FusedChoice::kKind, fused_images},
      {DepthwiseChoice::kKind, depthwise_images},
      {PointwiseChoice::kKind, pointwise_images},
  };
  return families;
}

}  // namespace minuet
