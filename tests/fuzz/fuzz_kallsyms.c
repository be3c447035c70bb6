/* kallsyms over a table of any bytes. Seeds: tests/fuzz/corpus/kallsyms. */
#include "node-agent/kallsyms.c"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = memfd_create("fuzz_kallsyms", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes) {
        struct kallsyms *kallsyms = kallsyms_new(path);
        const char *function, *module;
        kallsyms_add(kallsyms, 0x1000, 16, "bpf_prog_x");
        for (uint64_t address = 1; address; address <<= 4) {
            if (kallsyms_find(kallsyms, address | 0xf, &function, &module) == 0 &&
                (strlen(function) >= KALLSYMS_NAME_BYTES || strlen(module) >= MODULE_NAME_BYTES))
                __builtin_trap();
            kallsyms_remove(kallsyms, address);
        }
        kallsyms_free(kallsyms);
    }
    close(fd);
    return 0;
}
