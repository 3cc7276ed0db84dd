#!/bin/sh
# SimGrid with SMPI, in .simulator, for those who cannot install it: `make simulator`.
# Its source comes as a package whose own build leaves SMPI out; so it is built here, by cmake and
# ninja from wheels. What was fetched or compiled is kept: given again, it goes on from there.
# Argument: this environment's python.
set -eu

python=$1
here=$PWD/.simulator
[ ! -x "$here/bin/smpirun" ] || { echo "Ringside: SimGrid is in .simulator already."; exit 0; }
command -v c++ >/dev/null || {
    echo "Ringside: this needs a C++ compiler: apt-get install g++, or dnf install gcc-c++" >&2
    exit 2
}
case $here in
*[!A-Za-z0-9_./+-]*)
    echo "Ringside: SimGrid cannot be built in $here: its scripts bear no space in a path" >&2
    exit 2
    ;;
esac
mkdir -p "$here"
exec 9>"$here/lock"
flock -n 9 || { echo "Ringside: another make simulator is at work here." >&2; exit 2; }

if [ ! -e "$here/fetched/done" ]; then
    echo "Ringside: fetching SimGrid and what builds it (60 MB) ..."
    "$python" -m venv "$here/env"
    "$here/env/bin/python" -m pip --quiet --disable-pip-version-check download --no-deps \
        --require-hashes --no-binary simgrid -r requirements-simulator.txt -d "$here/fetched"
    "$here/env/bin/python" -m pip --quiet --disable-pip-version-check install --no-index \
        --find-links "$here/fetched" boost-headers cmake ninja
    touch "$here/fetched/done"
fi
if [ ! -e "$here/source/done" ]; then
    mkdir -p "$here/source"
    tar -xzf "$here"/fetched/simgrid-*.tar.gz -C "$here/source" --strip-components 1
    touch "$here/source/done"
fi

PATH=$here/env/bin:$PATH
boost=$("$here/env/bin/python" -c "import boost_headers; print(boost_headers.get_include())")
mkdir -p "$here/build"
cd "$here/build" # where its own tests leave files
if [ ! -e build.ninja ]; then
    options=
    for name in documentation python fortran smpi_fortran ns3 model-checking lto java testsuite_smpi_MPICH3; do
        options="$options -Denable_$name=OFF"
    done
    # shellcheck disable=SC2086
    cmake -G Ninja -S "$here/source" -B "$here/build" -Wno-dev -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$here" -DCMAKE_INSTALL_RPATH="$here/lib" -DBoost_INCLUDE_DIR="$boost" \
        -Denable_smpi=ON $options >"$here/cmake.log" 2>&1 || {
        tail -20 "$here/cmake.log" >&2
        rm -f build.ninja
        exit 1
    }
fi
echo "Ringside: building SimGrid; some minutes on a few cores ..."
cmake --build "$here/build" --target simgrid smpimain smpireplaymain
DESTDIR=$here/stage cmake --install "$here/build" >"$here/install.log" 2>&1 || {
    tail -20 "$here/install.log" >&2
    exit 1
}
for part in lib include bin; do # what is looked for comes last
    rm -rf "${here:?}/$part"
    mv "$here/stage$here/$part" "$here/$part"
done
"$here/bin/smpirun" -version
rm -rf "$here/stage" "$here/build" "$here/source" "$here/fetched" "$here/env"
