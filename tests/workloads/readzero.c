/* readzero SECONDS: reads /dev/zero as fast as it can, so that nearly all of its time is the kernel's.
 * Truth: {"user_ns": N, "system_ns": N, "reads": N} by getrusage. */
#include "workload.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static char buffer[256 * 1024];

/* The system call itself, without the C library's function between: that one keeps no frame pointer, and
 * walking without tables would lose its caller, the very frame this program is about. */
static inline long raw_read(int fd, void *data, size_t bytes)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(SYS_read), "D"(fd), "S"(data), "d"(bytes)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long result __asm__("x0") = fd;
    register const void *to __asm__("x1") = data;
    register size_t count __asm__("x2") = bytes;
    register long number __asm__("x8") = SYS_read;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(to), "r"(count), "r"(number) : "memory");
    return result;
#else
    return syscall(SYS_read, fd, data, bytes);
#endif
}

NOINLINE uint64_t read_loop(int fd);
NOINLINE uint64_t read_loop(int fd)
{
    uint64_t reads = 0;
    for (int i = 0; i < 64; i++)
        if (raw_read(fd, buffer, sizeof(buffer)) > 0)
            reads++;
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame stays on the stack */
    return reads;
}

static uint64_t of_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

int main(int argc, char **argv)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (argc < 2 || fd == -1) {
        fprintf(stderr, "usage: readzero SECONDS\n");
        return 2;
    }
    uint64_t reads = 0;
    workload_start(argv[1]);
    while (workload_runs())
        reads += read_loop(fd);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"user_ns\": %ju, \"system_ns\": %ju, \"reads\": %ju}\n", (uintmax_t)of_ns(usage.ru_utime),
           (uintmax_t)of_ns(usage.ru_stime), (uintmax_t)reads);
    return 0;
}
