/* bench_merge: the loop of a shard that touches every row of a question, beside what this machine's memory
 * allows. Rows refer to random call-tree nodes, with a table of 256 MiB of totals (the worst case: nothing
 * fits a cache) and with one of 1 MiB (20,000 stacks and their like: the usual case). The limit is
 * independent random 8-byte read-modify-writes over 512 MiB. One thread. Prints JSON: rows or writes a
 * second, the median of five. */
#include "aggregator/top.c"

#include "common/clock.h"

#include <stdio.h>
#include <sys/mman.h>

#define ROUNDS 5
#define ROWS   (16u << 20)

static uint64_t random_state = 88172645463325252ULL;

static uint64_t next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void *huge(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        abort();
    madvise(block, bytes, MADV_HUGEPAGE);
    memset(block, 0, bytes);
    return block;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static double rmw_per_second(void)
{
    size_t count = (512u << 20) / sizeof(uint64_t);
    uint64_t *cells = huge(count * sizeof(*cells));
    double rates[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t x = next();
        uint64_t start_ns = clock_mono_ns();
        for (uint32_t i = 0; i < ROWS; i++) {
            x = x * 6364136223846793005ULL + 1442695040888963407ULL;
            cells[(x >> 33) & (count - 1)] += x;
        }
        rates[round] = ROWS * 1e9 / (double)(clock_mono_ns() - start_ns);
    }
    munmap(cells, count * sizeof(*cells));
    return median(rates);
}

static void on_drop(uint64_t bucket_start_ms, enum window_drop why, void *ctx)
{
    (void)bucket_start_ms;
    (void)why;
    (void)ctx;
    abort(); /* the limit is above what is filled in */
}

static double merge_per_second(uint32_t node_count)
{
    struct windows windows;
    windows_init(&windows, 4ULL << 30, 3600000, on_drop, NULL);
    struct window_bucket *bucket = windows_bucket(&windows, 0, 3600000);
    for (uint32_t done = 0; done < ROWS; done += 500) {
        struct window_segment segment = windows_add(&windows, bucket, 0, 500);
        for (uint32_t i = 0; i < 500; i++) {
            segment.node[i] = (uint32_t)(next() % node_count);
            segment.value[i] = 10000;
            segment.count[i] = 1;
        }
    }
    struct pair_cell *cells = huge(node_count * sizeof(*cells));
    double rates[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start_ns = clock_mono_ns();
        struct window_cursor cursor = window_cursor(bucket);
        struct window_segment segment;
        while (window_next(&cursor, &segment))
            scan_segment(cells, &segment);
        rates[round] = (double)bucket->row_count * 1e9 / (double)(clock_mono_ns() - start_ns);
    }
    munmap(cells, node_count * sizeof(*cells));
    windows_fini(&windows);
    return median(rates);
}

int main(void)
{
    double rmw = rmw_per_second();
    double cold = merge_per_second((256u << 20) / sizeof(struct pair_cell));
    double warm = merge_per_second((1u << 20) / sizeof(struct pair_cell));
    printf("{\"rmw_per_second\": %.0f, \"merge_per_second\": %.0f, \"merge_warm_per_second\": %.0f}\n", rmw,
           cold, warm);
    return 0;
}
