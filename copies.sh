#!/bin/sh
# A reader's copies of the lessons, in a folder of the reader's own: copies.sh FOLDER [FRESH].
# They are made of my-lessons/.new (the lessons without outputs), which the Makefile keeps. A copy
# that nobody has changed follows its lesson; one that somebody has stays, until FRESH puts it aside.
set -eu
mine=$1 fresh=${2:-}
here=$(cd "$(dirname "$0")" && pwd -P)
new=$here/my-lessons/.new
if [ ! -d "$new" ]; then
    echo "Ringside: $here has no lessons to copy yet. There, run: make my-lessons" >&2
    exit 1
fi
mkdir -p "$mine/.given/exercises" "$mine/exercises"
mine=$(cd "$mine" && pwd -P)
# Within the checkout the links are relative, so that it can be moved.
case $mine in
    "$here/my-lessons")
        reference=../notebooks/reference within=../$reference again="make lab FRESH=1" ;;
    *)
        chmod 700 "$mine" # answers: the reader's alone
        reference=$here/notebooks/reference within=$reference
        again="sh '$here/copies.sh' '$mine' FRESH" ;;
esac
ln -sfn "$reference" "$mine/reference"
aside=$mine/until-$(date +%Y-%m-%d-%H%M%S)
for lesson in "$new"/*.ipynb "$new"/exercises/*.ipynb; do
    name=${lesson#"$new/"} copy=$mine/${lesson#"$new/"} given=$mine/.given/${lesson#"$new/"}
    if [ -e "$copy" ] && ! cmp -s "$copy" "$given"; then
        if [ -n "$fresh" ]; then
            mkdir -p "$aside/exercises"
            ln -sfn "$within" "$aside/reference"
            mv "$copy" "$aside/$name"
            echo "Ringside: your $name is kept in ${aside#"$here/"}"
        else
            cmp -s "$lesson" "$given" ||
                echo "Ringside: $name is newer than your copy; $again keeps both"
            continue
        fi
    fi
    cp "$lesson" "$given"
    cp "$lesson" "$copy"
done
