/* dlopen, dlclose: the library is gone again. One unique or weak symbol that got out would keep it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : 0;
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  dlclose(library);
  if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) {
    fprintf(stderr, "%s stays loaded after dlclose\n", argv[1]);
    return 1;
  }
  printf("unloads\n");
  return 0;
}
