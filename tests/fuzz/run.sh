#!/bin/bash
# timeout: 5400
# tests/fuzz/run.sh [SECONDS [FUZZER...]]: runs every fuzzer for SECONDS (default $FUZZ_SECONDS or 60), two at a time, and
# prints TAP. The seeds in tests/fuzz/corpus/<stem>/ are read only; what a run adds stays in out/fuzz/found/<stem>/ and
# is used again. A crash, a leak, 2 GiB or a 25 s input fails; the input is kept in out/fuzz/artifacts/ and its path printed.
cd "$(dirname "$0")/../.." || exit 1
limit_s=${1:-${FUZZ_SECONDS:-60}}
shift
fuzzers=("$@")
[ ${#fuzzers[@]} -gt 0 ] || mapfile -t fuzzers < <(ls -d out/fuzz/fuzz/fuzz_* 2> /dev/null)
if [ ${#fuzzers[@]} -eq 0 ]; then
    echo "not ok 1 - there are fuzzers to run"
    echo "# none in out/fuzz/fuzz: make MODE=fuzz fuzz-build"
    exit 1
fi

one() {
    fuzzer=$1 limit_s=$2
    stem=$(basename "$fuzzer")
    stem=${stem#fuzz_}
    found=out/fuzz/found/$stem seeds=tests/fuzz/corpus/$stem log=out/fuzz/$stem.log
    mkdir -p "$found" out/fuzz/artifacts
    options=(-max_total_time="$limit_s" -max_len=65536 -timeout=25 -rss_limit_mb=2048 -print_final_stats=1
        -artifact_prefix="out/fuzz/artifacts/$stem-")
    [ ! -f "tests/fuzz/$stem.dict" ] || options+=(-dict="tests/fuzz/$stem.dict")
    [ ! -d "$seeds" ] || found="$found $seeds"
    # A small quarantine: a million small blocks a second (regular expressions) would else look like a leak of gigabytes.
    export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16:allocator_release_to_os_interval_ms=500}
    # shellcheck disable=SC2086 # two folders, or one
    if timeout $((limit_s + 120)) "$fuzzer" "${options[@]}" $found > "$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        if [ "${runs:-0}" -gt 0 ]; then
            echo "ok - fuzz $stem"
            echo "# $stem: $runs inputs, $(find out/fuzz/found/"$stem" -type f | wc -l) kept"
            return
        fi
    fi
    # One write, so that two fuzzers' reports do not mix.
    printf 'not ok - fuzz %s\n%s\n' "$stem" "$(tail -n 60 "$log" | sed 's/^/# /')"
}
export -f one
echo "1..${#fuzzers[@]}"
results=$(printf '%s\n' "${fuzzers[@]}" | xargs -P 2 -I{} bash -c 'one "$1" "$2"' one {} "$limit_s")
echo "$results"
! grep -q '^not ok' <<< "$results"
