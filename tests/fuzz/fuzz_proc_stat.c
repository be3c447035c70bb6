/* The text of /proc/PID/stat. */
#include "node-agent/proc_stat.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct proc_stat stat;
    if (proc_stat_parse((const char *)data, bytes, &stat) == 0 &&
        (stat.comm_bytes >= sizeof(stat.comm) || stat.comm_bytes + 40 > bytes))
        abort();
    return 0;
}
