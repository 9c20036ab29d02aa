#include "tools/minuet/base/convert.h"

#include <cstring>

#include "kernels_templates/shared/elements.h"

namespace minuet::tool {

static_assert(kDTypeCount == 4,
              "the number of dtypes changed: update their lists in the messages of flags/run.cc and "
              "library/library.cc");

uint16_t float_to_half(float value) { return Element<DType::F16>::store(value); }
float half_to_float(uint16_t bits) { return Element<DType::F16>::load(bits); }
uint16_t float_to_bfloat16(float value) { return Element<DType::BF16>::store(value); }
float bfloat16_to_float(uint16_t bits) { return Element<DType::BF16>::load(bits); }

const char* dtype_name(minuet_dtype dtype) {
  return dtype >= 0 && dtype < kDTypeCount ? kDTypeNames[dtype] : "?";
}

const char* map_method_name(minuet_map_method method) {
  static constexpr const char* kNames[] = {"auto", "sorted", "indexed"};
  return method >= 0 && method < 3 ? kNames[method] : "?";
}

const char* dataflow_name(minuet_dataflow dataflow) {
  static constexpr const char* kNames[] = {"auto", "gather-gemm-scatter", "fused"};
  return dataflow >= 0 && dataflow < 3 ? kNames[dataflow] : "?";
}

std::optional<minuet_dtype> parse_dtype(llvm::StringRef name) {
  for (minuet_dtype dtype = 0; dtype < kDTypeCount; ++dtype) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

int dtype_bytes(minuet_dtype dtype) { return minuet::dtype_bytes(static_cast<DType>(dtype)); }

float dtype_largest(minuet_dtype dtype) {
  return with_dtype(static_cast<DType>(dtype), []<DType T>() { return Element<T>::kLargest; });
}

std::vector<char> encode(const std::vector<float>& values, minuet_dtype dtype) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  with_dtype(static_cast<DType>(dtype), [&]<DType T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto stored = Element<T>::store(values[i]);
      std::memcpy(bytes.data() + i * sizeof(stored), &stored, sizeof(stored));
    }
  });
  return bytes;
}

std::vector<float> decode(const std::vector<char>& bytes, minuet_dtype dtype) {
  std::vector<float> values(bytes.size() / static_cast<size_t>(dtype_bytes(dtype)));
  with_dtype(static_cast<DType>(dtype), [&]<DType T>() {
    typename Element<T>::Stored stored;
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&stored, bytes.data() + i * sizeof(stored), sizeof(stored));
      values[i] = Element<T>::load(stored);
    }
  });
  return values;
}

}  // namespace minuet::tool
