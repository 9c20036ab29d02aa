// Exported for the stand-in to find.
#pragma GCC visibility push(default)
#include "tests/support/software_cuda/enqueue.h"
#pragma GCC visibility pop

#include <dlfcn.h>

#include <cmath>
#include <cstring>

#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/software_cuda/cublaslt_fixture.h"

CUresult software_cuda_enqueue(CUstream stream, void (*work)(void*), void* state, void (*release)(void*)) {
  auto& device = minuet::software::FakeDevice::get();
  if (device.takes == 0) {
    release(state);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (device.takes > 0) --device.takes;
  device.queue.push_back({stream, work, state, release});
  return CUDA_SUCCESS;
}

int software_cuda_holds(const void* memory, std::size_t bytes) {
  return minuet::software::FakeDevice::get().holds(memory, bytes);
}

void software_cuda_fault(const char* what) { minuet::software::FakeDevice::get().faults.emplace_back(what); }

namespace minuet::software {

FakeDevice& FakeDevice::get() {
  static FakeDevice device;
  return device;
}

char* FakeDevice::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  Allocation& made = allocations_.emplace_back();
  made.memory.reset(new char[bytes + 2 * kAlignment]);
  const auto address = reinterpret_cast<uintptr_t>(made.memory.get()) + 1;
  made.begin = made.memory.get() + 1 + (kAlignment - address % kAlignment) % kAlignment;
  made.bytes = bytes;
  std::memset(made.begin, 0xff, bytes);
  return made.begin;
}

bool FakeDevice::holds(const void* memory, std::size_t bytes) const {
  const auto* begin = static_cast<const char*>(memory);
  for (const Allocation& one : allocations_) {
    if (begin >= one.begin && begin + bytes <= one.begin + one.bytes) return true;
  }
  return bytes == 0;
}

void FakeDevice::run(std::size_t index) {
  const Work piece = queue.at(index);
  queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(index));
  piece.work(piece.state);
  piece.release(piece.state);
}

void FakeDevice::run_all() {
  while (!queue.empty()) run();
}

void FakeDevice::clear() {
  for (const Work& piece : queue) piece.release(piece.state);
  queue.clear();
  faults.clear();
  allocations_.clear();
  takes = -1;
}

const Library& Library::get() {
  static const Library library = [] {
    Library made;
    void* handle = dlopen(MINUET_SOFTWARE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    auto fill = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
      if (!function) throw std::runtime_error(std::string("there is no ") + name);
    };
#define MINUET_CUBLASLT_ROW(name) fill(#name, made.name);
#include "runtime/cuda/cublaslt.inc"
    fill("software_cublaslt_counts", made.counts);
    fill("software_cublaslt_last_refusal", made.last_refusal);
    fill("software_cublaslt_fail_lookups", made.fail_lookups);
    fill("software_cublaslt_fail_matmuls", made.fail_matmuls);
    fill("software_cublaslt_hide_algorithms", made.hide_algorithms);
    fill("software_cublaslt_set_scarcity", made.set_scarcity);
    fill("software_cublaslt_refuse_inexact", made.refuse_inexact);
    fill("software_cublaslt_reset", made.reset);
    return made;
  }();
  return library;
}

namespace {

cudaDataType_t stored_type(DType type) {
  switch (type) {
    case DType::F32:
    case DType::TF32:
      return CUDA_R_32F;
    case DType::F16:
      return CUDA_R_16F;
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::U8:
    case DType::S8:
      break;
  }
  return CUDA_R_32F;
}

/// Half the distance between 1 and the next value.
double half_step(DType type) {
  switch (type) {
    case DType::F32:
    case DType::TF32:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    case DType::U8:
    case DType::S8:
      break;
  }
  return 0;
}

/// One for all calls.
cublasLtHandle_t shared_handle() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    EXPECT_EQ(Library::get().cublasLtCreate(&made), CUBLAS_STATUS_SUCCESS);
    return made;
  }();
  return handle;
}

}  // namespace

Call::Call(const Case& wanted) : test(wanted), handle(shared_handle()) {
  const Library& library = Library::get();
  const auto compute = test.type == DType::TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  EXPECT_EQ(library.cublasLtMatmulDescInit_internal(&operation, sizeof(operation), compute, CUDA_R_32F), 0);
  EXPECT_EQ(library.cublasLtMatmulPreferenceInit_internal(&preference, sizeof(preference)), 0);
  const auto most = static_cast<uint64_t>(workspace_bytes);
  EXPECT_EQ(library.cublasLtMatmulPreferenceSetAttribute(
                &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)),
            0);
  promise(2);
  workspace = FakeDevice::get().allocate(workspace_bytes);
  for (int i = 0; i < 4; ++i) {
    lay_out(i, rows(i), columns(i), ld(i));
    fill(i);
  }
}

int64_t Call::ld(int operand) const {
  return (test.row_major[operand] ? columns(operand) : rows(operand)) + test.ld_padding;
}

int64_t Call::stride(int operand) const {
  return (test.row_major[operand] ? rows(operand) : columns(operand)) * ld(operand);
}

int64_t Call::index(int operand, int64_t member, int64_t row, int64_t column) const {
  const int64_t line = test.row_major[operand] ? row : column, place = test.row_major[operand] ? column : row;
  return member * stride(operand) + line * ld(operand) + place;
}

void Call::fill(int operand) {
  Random random(test.seed * 4 + static_cast<uint64_t>(operand));
  // The last row of the last member ends with its last element: what follows is no allocation's.
  const int64_t count = test.batch * stride(operand) - test.ld_padding;
  std::vector<float>& values = values_[operand];
  values.resize(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  // tf32 is rounded by the product, not in memory.
  const DType in_memory = storage_type(type(operand));
  values = round_to(in_memory, std::move(values));
  const std::vector<char> bytes = encode(in_memory, values);
  memory[operand] = FakeDevice::get().allocate(bytes.size());
  std::memcpy(memory[operand], bytes.data(), bytes.size());
  addresses[operand] = memory[operand];
  if (test.mode != Mode::Pointers) return;
  auto** table = reinterpret_cast<char**>(
      FakeDevice::get().allocate(static_cast<std::size_t>(test.batch) * sizeof(char*)));
  const int64_t member_bytes = stride(operand) * dtype_bytes(in_memory);
  for (int i = 0; i < test.batch; ++i) table[i] = memory[operand] + i * member_bytes;
  addresses[operand] = table;
}

void Call::lay_out(int operand, int64_t rows, int64_t columns, int64_t ld) {
  cublasLtMatrixLayoutOpaque_t& layout = layouts[operand];
  const Library& library = Library::get();
  EXPECT_EQ(library.cublasLtMatrixLayoutInit_internal(&layout, sizeof(layout), stored_type(type(operand)),
                                                      static_cast<uint64_t>(rows),
                                                      static_cast<uint64_t>(columns), ld),
            0);
  const int32_t order = test.row_major[operand] ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
  EXPECT_EQ(
      library.cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)),
      0);
  set_batch(operand, test.batch, stride(operand));
}

void Call::set_batch(int operand, int32_t batch, int64_t stride) {
  cublasLtMatrixLayoutOpaque_t& layout = layouts[operand];
  auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    EXPECT_EQ(Library::get().cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof(value)), 0);
  };
  if (test.mode == Mode::Single) return;
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
  if (test.mode == Mode::Strided) set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  if (test.mode == Mode::Pointers) {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, static_cast<uint32_t>(CUBLASLT_BATCH_MODE_POINTER_ARRAY));
  }
}

void Call::promise(uint32_t alignment) {
  for (int i = 0; i < 4; ++i) {
    const auto attribute =
        static_cast<cublasLtMatmulPreferenceAttributes_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i);
    EXPECT_EQ(Library::get().cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &alignment,
                                                                  sizeof(alignment)),
              0);
  }
}

cublasStatus_t Call::look_up() {
  cublasLtMatmulHeuristicResult_t results[4];
  int count = 0;
  const cublasStatus_t status =
      Library::get().cublasLtMatmulAlgoGetHeuristic(handle, &operation, &layouts[0], &layouts[1], &layouts[2],
                                                    &layouts[3], &preference, 4, results, &count);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    algorithm = results[i].algo;
    needs = results[i].workspaceSize;
    return status;
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t Call::enqueue(CUstream_st* stream) {
  return Library::get().cublasLtMatmul(
      handle, &operation, &test.alpha, addresses[0], &layouts[0], addresses[1], &layouts[1], &test.beta,
      addresses[2], &layouts[2], addresses[3], &layouts[3], &algorithm, workspace, workspace_bytes, stream);
}

bool Call::run() {
  if (look_up() != CUBLAS_STATUS_SUCCESS || enqueue() != CUBLAS_STATUS_SUCCESS) return false;
  FakeDevice::get().run_all();
  return FakeDevice::get().faults.empty();
}

testing::AssertionResult Call::is_right() const {
  const DType in_memory = storage_type(type(3));
  const std::size_t bytes = values_[3].size() * static_cast<std::size_t>(dtype_bytes(in_memory));
  const std::vector<float> result = decode(in_memory, std::vector<char>(memory[3], memory[3] + bytes));
  std::vector<float> rest = result;
  const std::vector<float> a_values = round_to(test.type, values_[0]),
                           b_values = round_to(test.type, values_[1]);
  for (int64_t i = 0; i < test.batch * test.m * test.n; ++i) {
    const int64_t member = i / (test.m * test.n), row = i / test.n % test.m, column = i % test.n;
    double sum = 0, size = 0;
    for (int64_t j = 0; j < test.k; ++j) {
      const double a = a_values[index(0, member, row, j)], b = b_values[index(1, member, j, column)];
      sum += a * b, size += std::abs(a * b);
    }
    const double old = values_[2][index(2, member, row, column)];
    const double reference = test.alpha * sum + (test.beta != 0 ? test.beta * old : 0);
    const double within = half_step(in_memory) * std::abs(reference) +
                          4 * static_cast<double>(test.k + 2) * 0x1p-24 *
                              (std::abs(test.alpha) * size + std::abs(test.beta * old)) +
                          0x1p-24;
    const int64_t place = index(3, member, row, column);
    if (!(std::abs(result[place] - reference) <= within)) {
      return testing::AssertionFailure() << "member " << member << " row " << row << " column " << column
                                         << ": " << result[place] << ", and " << reference << " is right";
    }
    rest[place] = values_[3][place];
  }
  if (rest == values_[3]) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "what lies between the rows has changed";
}

void CublasltTest::SetUp() {
  device_.clear();
  library_.reset();
}

void CublasltTest::TearDown() {
  EXPECT_EQ(faults(), "");
  device_.clear();
  library_.reset();
}

std::string CublasltTest::faults() {
  std::string all;
  for (const std::string& fault : device_.faults) all += fault + "\n";
  device_.faults.clear();
  return all;
}

std::string CublasltTest::refusal() {
  char text[256];
  Library::get().last_refusal(text, sizeof(text));
  return text;
}

SoftwareCublasltCounts CublasltTest::counts() {
  SoftwareCublasltCounts counts;
  Library::get().counts(&counts);
  return counts;
}

}  // namespace minuet::software
