// From a case that fails to the simplest one that still does.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace minuet {

/// Takes what fails of simpler(failing), again and again, until none of it does or `most_runs` were tried.
/// `simpler` lists great steps before small ones.
template <class Case>
Case shrink(Case failing, const std::function<std::vector<Case>(const Case&)>& simpler,
            const std::function<bool(const Case&)>& fails, int most_runs) {
  std::vector<Case> candidates = simpler(failing);
  // Goes on after a step at the place where it stands: what did not help before seldom helps now.
  for (std::size_t next = 0, idle = 0; idle < candidates.size() && most_runs-- > 0;) {
    next %= candidates.size();
    if (fails(candidates[next])) {
      failing = candidates[next];
      candidates = simpler(failing);
      idle = 0;
    } else {
      ++next, ++idle;
    }
  }
  return failing;
}

}  // namespace minuet
