#!/bin/sh
# site.sh FOLDER: writes the web site of the course into FOLDER, with the packages that make site has installed, and the
# slides that make slides has made, if any. docs/site/eleventy.config.js says what the site has.
set -eu

case $PWD in
*[%#?:\\]*)
    echo "error: the packages that make the site read no folder whose path has a % # ? : or \\: move this one, $PWD" >&2
    exit 1
    ;;
esac
rm -rf "$1"
NODE_PATH=$PWD/build/site-node/node_modules SITE=$1 build/site-node/node_modules/.bin/eleventy \
    --config=docs/site/eleventy.config.js --quiet
echo "$1/index.html: open it in a browser."
