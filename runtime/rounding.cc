#include "runtime/rounding.h"

#include <cstring>

#include "kernels_templates/shared/elements.h"

namespace minuet {

void round_values(DType dtype, float* values, std::size_t count) {
  with_dtype(dtype, [&]<DType T>() {
    for (std::size_t i = 0; i < count; ++i) values[i] = Element<T>::operand(Element<T>::store(values[i]));
  });
}

void store_values(DType dtype, const float* values, std::size_t count, void* target) {
  with_dtype(dtype, [&]<DType T>() {
    auto* bytes = static_cast<char*>(target);
    for (std::size_t i = 0; i < count; ++i) {
      const auto stored = Element<T>::store(values[i]);
      std::memcpy(bytes + i * sizeof(stored), &stored, sizeof(stored));
    }
  });
}

void load_values(DType dtype, const void* source, std::size_t count, float* values) {
  with_dtype(dtype, [&]<DType T>() {
    const auto* bytes = static_cast<const char*>(source);
    for (std::size_t i = 0; i < count; ++i) {
      typename Element<T>::Stored stored;
      std::memcpy(&stored, bytes + i * sizeof(stored), sizeof(stored));
      values[i] = Element<T>::load(stored);
    }
  });
}

}  // namespace minuet
