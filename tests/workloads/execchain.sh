#!/bin/sh
# execchain.sh SECONDS PROGRAM: the same program started in the ways that leave an old name behind when name and
# executable are frozen at fork: exec by a shell, by env, and by the dynamic loader itself.
# Truth: three lines, each the program's own.
set -eu
sh -c 'exec "$0" "$1"' "$2" "$1" &
env SHOWN=1 "$2" "$1" &
"$(ls /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* 2>/dev/null | head -n 1)" "$2" "$1" &
wait
