// keycheck SECONDS: validates tenant keys over and over, by a regular expression (slowValidate) and by a loop over the
// bytes (fastValidate): the same verdicts at very different cost.
// Truth: {"valid": N, "cpu_ns": {"main.slowValidate": N, "main.fastValidate": N}}, CPU time of the validating thread.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const keyCount = 20000

var pattern = regexp.MustCompile(`(^|-)tenant-[a-z]{4}-[0-9]{6}-(dev|prod|test)$`)

func makeKeys() []string {
	kinds := []string{"dev", "prod", "test", "none"}
	keys := make([]string, keyCount)
	for i := range keys {
		name := []byte{byte('a' + i%26), byte('a' + i/26%26), byte('a' + i/676%26), 'k'}
		keys[i] = fmt.Sprintf("tenant-%s-%06d-%s", name, i*7919%1000000, kinds[i%len(kinds)])
	}
	return keys
}

//go:noinline
func slowValidate(keys []string) int {
	valid := 0
	for _, key := range keys {
		if pattern.MatchString(key) {
			valid++
		}
	}
	return valid
}

//go:noinline
func fastValidate(keys []string) int {
	valid := 0
	for _, key := range keys {
		if isKey(key) {
			valid++
		}
	}
	return valid
}

func isKey(key string) bool {
	if len(key) < 22 || key[:7] != "tenant-" || key[11] != '-' || key[18] != '-' {
		return false
	}
	for i := 7; i < 11; i++ {
		if key[i] < 'a' || key[i] > 'z' {
			return false
		}
	}
	for i := 12; i < 18; i++ {
		if key[i] < '0' || key[i] > '9' {
			return false
		}
	}
	kind := key[19:]
	return kind == "dev" || kind == "prod" || kind == "test"
}

func threadCPU() int64 {
	const clockThreadCPUTime = 3
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPUTime, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		if given, err := strconv.ParseFloat(os.Args[1], 64); err == nil {
			seconds = given
		}
	}
	runtime.LockOSThread()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	keys := makeKeys()
	valid, slow, fast := 0, int64(0), int64(0)
	for time.Now().Before(end) && len(stop) == 0 {
		start := threadCPU()
		bySlow := slowValidate(keys)
		middle := threadCPU()
		byFast := fastValidate(keys)
		slow += middle - start
		fast += threadCPU() - middle
		if bySlow != byFast {
			fmt.Fprintln(os.Stderr, "keycheck: the two validators disagree:", bySlow, byFast)
			os.Exit(1)
		}
		valid += bySlow + byFast
	}
	fmt.Printf("{\"valid\": %d, \"cpu_ns\": {\"main.slowValidate\": %d, \"main.fastValidate\": %d}}\n", valid, slow, fast)
}
