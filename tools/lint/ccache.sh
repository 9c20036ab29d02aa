# The scripts tools/check and tools/quickstart source this file, and set $root before. It puts ccache's folder into
# build/ if the home folder is not writable, and makes clones in different folders share results.
if ! mkdir -p "${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ccache}" 2>/dev/null; then
  export CCACHE_DIR=$root/build/ccache
fi
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
