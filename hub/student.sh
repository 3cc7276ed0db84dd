#!/bin/sh
# A student's server, begun by JupyterHub as the student: student.sh PYTHON [argument ...].
# What it writes is the student's alone.
set -eu
umask 077
python=$1
shift
bin=$(dirname "$python")
sh "$(dirname "$0")/../copies.sh" "$HOME/ringside"
export PATH="$bin:/usr/local/bin:/usr/bin:/bin" JUPYTER_PREFER_ENV_PATH=1
exec "$python" -m jupyterhub.singleuser "$@"
