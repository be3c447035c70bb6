#!/bin/bash
# timeout: 300
# Every source compiles for arm64 too: programs by the cross compiler, syntax and warnings only (the libraries' headers are
# the same for both), BPF programs whole.
. "$(dirname "$0")/tap.inc"
out=${OUT:-out/rel}
cross=aarch64-linux-gnu
if ! command -v $cross-gcc > /dev/null; then
    tap_skip "every source compiles for arm64" "$cross-gcc is not installed"
    tap_end
fi
bad=""
for source in $(files 'common/*.c' 'node-agent/*.c' 'aggregator/*.c' 'cli/*.c'); do
    errors=$($cross-gcc -std=gnu11 -O1 -D_GNU_SOURCE -I. -I"$out/gen" -idirafter /usr/include \
        -idirafter "/usr/include/$(gcc -print-multiarch)" -Wall -Wextra -Wshadow -Wundef -Wformat=2 -Werror \
        -fsyntax-only "$source" 2>&1 | head -n 3)
    [ -z "$errors" ] || bad+="$source: $errors"$'\n'
done
for source in $(files 'bpf/*.bpf.c'); do
    errors=$(clang-14 -target bpf -mcpu=v3 -D__TARGET_ARCH_arm64 -O2 -g -Wall -Wextra -Werror -I. \
        -idirafter /usr/$cross/include -c "$source" -o /dev/null 2>&1 | head -n 3)
    [ -z "$errors" ] || bad+="$source: $errors"$'\n'
done
tap "every source compiles for arm64" "${bad%$'\n'}"
tap_end
