# Sourced by tools/check and tools/quickstart, with $root set: ccache where a home cannot be written, and
# hits between clones in different folders.
if ! mkdir -p "${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ccache}" 2>/dev/null; then
  export CCACHE_DIR=$root/build/ccache
fi
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
