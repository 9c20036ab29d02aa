#!/bin/sh
# Compiles a test with clang in a build by g++ (MINUET_TESTS_BY_CLANG in MinuetTest.cmake). Replaces the compiler in a
# compile command and the options that clang does not have.
#
# usage: by_clang.sh GXX CLANGXX COMMAND...
gxx=$1 clangxx=$2
shift 2
count=$# header= previous=
while [ "$count" -gt 0 ]; do
  word=$1
  shift
  count=$((count - 1))
  # A precompiled header of g++ at the place of the output would be read in place of the source.
  case $previous in -x) header=$word ;; -o) [ "$header" = c++-header ] && rm -f "$word" ;; esac
  previous=$word
  case $word in
    "$gxx") set -- "$@" "$clangxx" ;;
    -Wno-maybe-uninitialized | -Wno-restrict) ;;
    # ccache can compare a precompiled header only if it has no time stamp, which this option omits.
    -fpch-preprocess | c++-header) [ "$word" = c++-header ] && set -- "$@" "$word"
      set -- "$@" -Xclang -fno-pch-timestamp ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec "$@"
