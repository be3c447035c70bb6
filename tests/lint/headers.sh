#!/bin/bash
# Every header compiles alone.
. "$(dirname "$0")/tap.inc"
out=${OUT:-out/rel}
bad=""
for header in $(files '*.h'); do
    case $header in
    bpf/kernel.h) compile="clang-14 -target bpf -idirafter /usr/include/$(gcc -print-multiarch)" ;; # kernel types: only BPF programs may read them
    *) compile="gcc -std=gnu11" ;;
    esac
    errors=$($compile -D_GNU_SOURCE -I. -I"$out/gen" -Wall -Wextra -Wno-unused-function -Wno-unused-variable -Werror \
        -fsyntax-only -x c - <<< "#include \"$header\"" 2>&1 | head -n 3)
    [ -z "$errors" ] || bad+="$header: $errors"$'\n'
done
tap "every header compiles alone" "${bad%$'\n'}"
tap_end
