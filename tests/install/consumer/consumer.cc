// The installed C++ headers: they are enough on their own, and what they wrap is the installed library.
#include <minuet/kernels.hpp>
#include <minuet/minuet.hpp>
#include <minuet/pointwise.hpp>
#include <minuet/pyramid.hpp>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  const unsigned version = minuet_version();
  const std::string text = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                           std::to_string(version % 100);
  if (argc != 2 || text != argv[1]) {
    std::fprintf(stderr, "the library is version %s\n", text.c_str());
    return 1;
  }
  std::printf("C++: minuet %s\n", text.c_str());
  return 0;
}
