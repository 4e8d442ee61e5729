#!/bin/sh
# site.sh FOLDER: writes the web site of the course into FOLDER, with the packages that make site has installed, and the
# slides that make slides has made, if any. docs/site/eleventy.config.js says what the site has.
set -eu

rm -rf "$1"
NODE_PATH=$PWD/build/site-node/node_modules SITE=$1 build/site-node/node_modules/.bin/eleventy \
    --config=docs/site/eleventy.config.js --quiet
echo "$1/index.html: open it in a browser."
