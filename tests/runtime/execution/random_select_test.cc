// Random selections of rows, children and cells through the C ABI, on every device, against plain loops. A
// failure is shrunk and printed.
#include "tests/cases/random_points.h"
#include "tests/runtime/execution/random_run.h"
#include "tests/runtime/execution/select_fixture.h"

namespace minuet::abi {
namespace {

constexpr int kSelections = kSanitized ? 40 : 300;
constexpr int kLongSelections = 10000;
constexpr int kCudaSelections = 100;
constexpr int kSoftwareSelections = 10;

class RandomSelect : public SelectTest {};

TEST_P(RandomSelect, Problems) {
  const int count = case_count(machine().is_cpu()        ? kSelections
                               : machine().is_software() ? kSoftwareSelections
                                                         : kCudaSelections,
                               kLongSelections);
  const uint64_t seed = announce_seed(count);
  for (int i = 0; i < count; ++i) {
    const SelectionCase test =
        draw_selection(case_seed(seed, 500 + static_cast<uint64_t>(dtype()), static_cast<uint64_t>(i)));
    const auto run = [&](const SelectionCase& each) {
      run_and_expect(each.problem(), each.spare_rows, each.rows_past_count, each.shift);
    };
    const auto simpler = [](const SelectionCase& each) { return simpler_cases(each); };
    if (!passes_or_shrinks<SelectionCase>(test, run, simpler, SelectionCase{.rows = 9}))
      FAIL() << "problem " << i << " of seed " << seed;
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(RandomSelect);

}  // namespace
}  // namespace minuet::abi
