// The locale of the host is not ours: functions of libc that go by one are called under the C locale.
#pragma once

#include <locale.h>

namespace minuet {

/// Gives the calling thread the C locale while it lives, and then the locale that it had. Other threads and
/// the process's locale are not touched.
class CLocale {
 public:
  CLocale() : before_(::uselocale(c_locale())) {}
  CLocale(const CLocale&) = delete;
  CLocale& operator=(const CLocale&) = delete;
  ~CLocale() { ::uselocale(before_); }

 private:
  static locale_t c_locale() {
    static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", locale_t{});
    return locale;
  }
  const locale_t before_;
};

}  // namespace minuet
