#include "runtime/cpu/activate_row.h"

#include "kernels_templates/shared/activation_functions.h"

namespace minuet {
namespace {

template <Activation A>
void apply_to_all(float* values, i64 count) {
  for (i64 i = 0; i < count; ++i) values[i] = activate<A>(values[i], 0);
}

}  // namespace

void activate_row(const VectorKernels& kernels, Activation activation, float slope, float* values,
                  i64 count) {
  switch (activation) {
    case Activation::None:
      return;
    case Activation::ReLU:
      return kernels.relu(values, count);
    case Activation::LeakyReLU:
      return kernels.leaky_relu(slope, values, count);
    case Activation::Gelu:
      return apply_to_all<Activation::Gelu>(values, count);
    case Activation::GeluTanh:
      return apply_to_all<Activation::GeluTanh>(values, count);
    case Activation::Silu:
      return apply_to_all<Activation::Silu>(values, count);
    case Activation::Sigmoid:
      return apply_to_all<Activation::Sigmoid>(values, count);
    case Activation::Tanh:
      return apply_to_all<Activation::Tanh>(values, count);
  }
}

}  // namespace minuet
