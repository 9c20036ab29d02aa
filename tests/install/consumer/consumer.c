/* The installed C header and library: the version agrees, and the CPU device opens. */
#include <minuet/minuet.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char text[64];
  uint32_t version = minuet_version();
  minuet_context* context = 0;
  minuet_device* device = 0;
  snprintf(text, sizeof(text), "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
  if (argc != 2 || strcmp(argv[1], text) != 0) {
    fprintf(stderr, "the library is version %s, expected %s\n", text, argc == 2 ? argv[1] : "(none given)");
    return 1;
  }
  if (minuet_context_create(0, &context) != MINUET_OK ||
      minuet_device_open(context, "cpu", NULL, &device) != MINUET_OK) {
    char message[256];
    minuet_last_error(message, sizeof(message));
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  printf("C: minuet %s\n", text);
  return 0;
}
