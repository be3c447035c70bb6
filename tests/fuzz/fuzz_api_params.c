/* Query strings: lines "name=value" stand for decoded parameters, the first byte chooses the door. */
#include "aggregator/api_params.c"

#include "common/cleanup.h"
#include "common/xalloc.h"

#include <stdlib.h>

/* The fake request is the text itself. */
struct http_request {
    char *text;
};

int http_request_each_param(const struct http_request *request,
                            int (*on_each)(const char *name, const char *value, void *ctx), void *ctx)
{
    int rc = 0;
    for (char *line = request->text, *next; line && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *equals = strchr(line, '=');
        if (equals)
            *equals = '\0';
        rc = on_each(line, equals ? equals + 1 : "", ctx);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    AUTO_FREE char *text = xmemdup_text(data + 1, bytes - 1);
    struct http_request request = {.text = text};
    struct api_params params;
    struct err err = {0};
    int rc = api_params_read(&request, (enum api_param_set)(data[0] % 4), 1769860800000, &params, &err);
    if (rc == 0 && (params.from_ms >= params.to_ms || params.limit < 1 || params.limit > QUERY_MAX_ROWS))
        abort();
    if (rc < 0 && !err.text[0])
        abort();
    api_params_fini(&params);
    return 0;
}
