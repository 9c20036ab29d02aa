// Linked into every test: sets the locale that MINUET_TEST_LOCALE names before main(), as a host does. The
// tests in it fail where the library or the tool goes by it. tests/support/comma_locale.py builds it.
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <locale>

namespace {

[[maybe_unused]] const bool host_locale_is_set = [] {
  const char* const name = std::getenv("MINUET_TEST_LOCALE");
  if (name == nullptr) return false;
  // A host that is written in C++ sets this one, by which iostreams go, and libc's with it.
  std::locale::global(std::locale(name));
  if (std::strcmp(std::localeconv()->decimal_point, ",") != 0) {
    std::fprintf(stderr, "the locale '%s' of MINUET_TEST_LOCALE has no decimal comma\n", name);
    std::abort();
  }
  return true;
}();

}  // namespace
