/* Lines of /proc/PID/maps: what is accepted must make sense, and its path must lie in the line. */
#include "node-agent/proc_maps.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    for (size_t at = 0; at <= bytes;) {
        const char *newline = at < bytes ? memchr(text + at, '\n', bytes - at) : NULL;
        size_t line_bytes = newline ? (size_t)(newline - text) - at : bytes - at;
        struct proc_map map;
        char path[64];
        if (proc_maps_parse_line(text + at, line_bytes, &map) == 0) {
            if (map.start >= map.end || !map.path != !map.path_bytes)
                abort();
            if (map.path && (map.path < text + at || map.path + map.path_bytes != text + at + line_bytes))
                abort();
            int length = proc_maps_path(&map, path, sizeof(path));
            if (length >= 0 && ((size_t)length > map.path_bytes || path[length] != '\0'))
                abort();
        }
        at += line_bytes + 1;
    }
    return 0;
}
