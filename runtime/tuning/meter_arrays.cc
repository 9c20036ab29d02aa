#include "runtime/tuning/meter_arrays.h"

#include "runtime/weights/rounding.h"

namespace minuet {

llvm::Expected<DeviceMemory> make_numbers(const std::shared_ptr<Device>& device, DType dtype, i64 count,
                                          float greatest) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<float>(i * 37 % 101) / 50.0f - 1.0f) * greatest;
  }
  std::vector<char> stored(values.size() * dtype_bytes(dtype));
  store_values(dtype, values.data(), values.size(), stored.data());
  MINUET_ASSIGN(DeviceMemory memory, DeviceMemory::create(device, static_cast<i64>(stored.size())));
  MINUET_TRY(device->upload(memory.data(), stored.data(), static_cast<i64>(stored.size())));
  return memory;
}

GivenArray whole_array(void* data, ElementType element, llvm::ArrayRef<i64> shape) {
  GivenArray array;
  array.data = data;
  array.element = element;
  array.shape.append(shape.begin(), shape.end());
  array.strides.assign(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    array.strides[axis - 1] = array.strides[axis] * array.shape[axis];
  }
  return array;
}

GivenArray array_of(const Program& program, i32 tensor, void* data, i64 rows, i64 batch_size) {
  const TensorSpec& spec = program.tensors[tensor];
  const bool holds_integers = program.storages[spec.storage].holds_integers;
  std::vector<i64> shape{spec.is_dense() ? batch_size : rows};
  if (spec.is_dense()) {
    shape.insert(shape.end(), spec.dims.begin(), spec.dims.end());
  } else {
    shape.push_back(spec.channels);
  }
  return whole_array(
      data, holds_integers ? ElementType::I32 : static_cast<ElementType>(storage_type(program.dtype)), shape);
}

std::vector<ValueRange> compared_ranges(i64 count) {
  constexpr i64 kParts = 256, kPart = 1 << 14;
  if (count <= kParts * kPart) return {{0, count}};
  std::vector<ValueRange> ranges;
  // The last range ends where the array ends.
  for (i64 i = 0; i < kParts; ++i) ranges.push_back({(count - kPart) * i / (kParts - 1), kPart});
  return ranges;
}

}  // namespace minuet
