#!/bin/bash
# tests/deps.sh [build|test]: installs the Debian packages that the project needs; does nothing when they are there.
#   build  what `make`, `make demo` and `make run` need (the default)
#   test   that, and what `make check`, `make fuzz`, `make bench` and CI need
# The one list of packages. Debian 12; other systems: install the same by their names and go on without this script.
set -euo pipefail

build=(
    make gcc libc6-dev linux-libc-dev                        # user space is C11 by gcc
    clang-14 bpftool libbpf-dev libelf-dev zlib1g-dev        # BPF programs and their skeletons
    protobuf-c-compiler libprotobuf-c-dev libnng-dev libzstd-dev libxxhash-dev # the wire
    libuv1-dev libmicrohttpd-dev libcurl4-openssl-dev libjansson-dev           # loop, HTTP, JSON
    libpcre2-dev                                             # label matchers
    libiberty-dev                                            # C++ and Rust names
    python3-minimal python3 git ca-certificates procps       # demo and tests; the version comes from git
)
tests=(
    libcmocka-dev
    clang-format-14 clang-tidy-14 libclang-rt-14-dev llvm-14 # lint, fuzzers, sanitizers by clang
    g++ lld musl-tools binutils                              # workloads in other layouts
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross              # that it compiles for arm64 too
    runc containerd                                          # containers by hand
    bpftrace linux-perf                                      # what the benchmarks compare with
)

have_command() {
    command -v "$1" > /dev/null 2>&1 || [ -x "/usr/local/go/bin/$1" ] || [ -x "/root/.cargo/bin/$1" ]
}

group=${1:-build}
case $group in
build) wanted=("${build[@]}") ;;
test) wanted=("${build[@]}" "${tests[@]}") ;;
*)
    echo "usage: tests/deps.sh [build|test]" >&2
    exit 2
    ;;
esac
# A Go or Rust of the machine's own is as good as Debian's.
have_command go || wanted+=(golang-go)
[ "$group" = build ] || have_command rustc || wanted+=(rustc)

if ! command -v dpkg-query > /dev/null; then
    echo "deps: this is not Debian: packages are not checked; wanted are: ${wanted[*]}" >&2
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

echo "deps: to install: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
    echo "deps: that needs root: run the same command with sudo, or install these packages first" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp /tmp/fleetprof-deps.XXXXXX)
install() {
    apt-get install -y --no-install-recommends -o Acquire::Retries=3 "${missing[@]}"
}
# The package lists of a fresh machine are empty or old.
if ! { apt-get update -o Acquire::Retries=3 && install; } > "$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "deps: apt-get failed; its output is in $log" >&2
    exit 1
fi
rm -f "$log"
