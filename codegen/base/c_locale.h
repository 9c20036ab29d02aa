// Sets the C locale around calls of locale-dependent libc functions, because the host program may have set
// another locale.
#pragma once

#include <locale.h>

namespace minuet {

/// Sets the C locale for the calling thread during the lifetime of this object, then restores the previous
/// locale. Does not affect other threads or the process's locale.
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
