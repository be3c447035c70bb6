#!/bin/bash
# timeout: 900
# clang-tidy over the product's C files (checks in .clang-tidy), two at a time. Needs generated headers: run after
# `make all`. TIDY_FILES="a.c b.c" narrows it.
. "$(dirname "$0")/tap.inc"
out=${OUT:-out/rel}
if ! command -v clang-tidy-14 > /dev/null; then
    tap_skip "clang-tidy finds nothing" "clang-tidy-14 is not installed"
    tap_end
fi
list=${TIDY_FILES:-$(files 'common/*.c' 'node-agent/*.c' 'aggregator/*.c' 'cli/*.c' 'controller/*.c')}
check() {
    include="-include tests/lint/analyzer.h"
    [ "$1" = common/err.c ] && include=""
    # shellcheck disable=SC2086 # two words or none
    clang-tidy-14 --quiet --warnings-as-errors='*' "$1" -- -std=gnu11 -I. -I"$2/gen" -D_GNU_SOURCE $include 2> /dev/null
}
export -f check
# Findings in system headers and generated ones are not ours.
found=$(printf '%s\n' $list | xargs -r -P 2 -I{} bash -c 'check "$1" "$2"' check {} "$out" |
    grep -E '(warning|error):' | grep -Ev '^/usr/|(^|/)out/' | sort -u)
tap "clang-tidy finds nothing" "$found"
tap_end
