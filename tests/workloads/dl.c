/* dl SECONDS LIBA LIBB: opens library A, burns in it, closes it, opens B, which the loader puts into the
 * range A had, burns there, and so on. Truth: {"cpu_ns": {"burn_a": N, "burn_b": N}, "rounds":
 * N, "reused": N}: reused counts the times B lay where A was. */
#include "workload.h"

#include <dlfcn.h>

typedef uint64_t (*burn_fn)(uint64_t until_thread_cpu_ns);

#define SLICE_NS 120000000u

static void *burn_in(const char *path, const char *symbol, uint64_t *spent_ns)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "dl: %s\n", dlerror());
        exit(1);
    }
    burn_fn burn;
    void *address = dlsym(library, symbol);
    memcpy(&burn, &address, sizeof(burn)); /* POSIX: the way to a function pointer without a forbidden cast */
    uint64_t start = thread_cpu_ns();
    burn(start + SLICE_NS);
    *spent_ns += thread_cpu_ns() - start;
    dlclose(library);
    return address;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: dl SECONDS LIBA LIBB\n");
        return 2;
    }
    uint64_t a_ns = 0, b_ns = 0, rounds = 0, reused = 0;
    workload_start(argv[1]);
    while (workload_runs()) {
        void *a = burn_in(argv[2], "burn_a", &a_ns);
        void *b = burn_in(argv[3], "burn_b", &b_ns);
        reused += (uintptr_t)a >> 12 == (uintptr_t)b >> 12;
        rounds++;
    }
    printf("{\"cpu_ns\": {\"burn_a\": %ju, \"burn_b\": %ju}, \"rounds\": %ju, \"reused\": %ju}\n",
           (uintmax_t)a_ns, (uintmax_t)b_ns, (uintmax_t)rounds, (uintmax_t)reused);
    return 0;
}
