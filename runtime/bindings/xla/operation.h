// What a custom call does. One object is made of the attributes of each place in a program that calls it.
#pragma once

#include <memory>

#include "runtime/bindings/xla/call_frame.h"
#include "runtime/bindings/xla/place.h"

namespace minuet_xla {

/// A custom call with its attributes. It may be used from many threads at once.
class XlaOperation {
 public:
  virtual ~XlaOperation() = default;
  /// Compiles and loads what run() needs on a device. This may be slow, and does nothing the second time.
  virtual void load(const XlaPlace& place) = 0;
  /// Enqueues the work.
  virtual void run(const XlaPlace& place, const XlaCall& call) = 0;
};

// Each makes one kind of custom call from its attributes. README.md has their attributes, operands and
// results.
std::unique_ptr<XlaOperation> make_pyramid(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_coordinates(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_pairs(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_prepare(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_run(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_parameter_gradients(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_training_forward(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_training_backward(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_batch_norm(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_batch_norm_gradient(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_voxelize(const XlaAttributes& attributes);
std::unique_ptr<XlaOperation> make_group_gradient(const XlaAttributes& attributes);

}  // namespace minuet_xla
