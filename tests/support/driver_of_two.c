/* As much of a CUDA driver as tells how many devices there are. */
int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
