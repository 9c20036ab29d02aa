/* A library with the names of LLVM's and zstd's functions, all of which end the process: loaded first and
 * globally, it catches any call of libminuet's that looks for one of them outside of libminuet. */
#include <stdlib.h>

#define CLASH(name) \
  void name(void);  \
  void name(void) { abort(); }

CLASH(_ZN4llvm6SHA2564initEv)
CLASH(_ZN4llvm6SHA2566updateENS_8ArrayRefIhEE)
CLASH(_ZN4llvm6SHA2566updateENS_9StringRefE)
CLASH(_ZN4llvm6SHA2565finalEv)
CLASH(_ZN4llvm6SHA2566resultEv)
CLASH(_ZN4llvm4json5parseENS_9StringRefE)
CLASH(_ZN4llvm4json5Value7destroyEv)
CLASH(_ZN4llvm11raw_ostream5writeEPKcm)
CLASH(_ZN4llvm11raw_ostream5writeEh)
CLASH(_ZN4llvm11raw_ostreamD1Ev)
CLASH(_ZN4llvm11raw_ostreamD2Ev)
CLASH(_ZN4llvm15SmallVectorBaseIjE8grow_podEPvmm)
CLASH(_ZN4llvm15SmallVectorBaseImE8grow_podEPvmm)
CLASH(ZSTD_decompress)
CLASH(ZSTD_compress)
CLASH(ZSTD_isError)
