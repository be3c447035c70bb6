/* What those who only handle sealed windows need of tally.h, without the collector behind it. */
#include "node-agent/tally.h"

#include <stdlib.h>

const char *const TALLY_LOSS_NAMES[TALLY_LOSS_COUNT] = {
#define X(name, text) #name,
    TALLY_LOSSES(X)
#undef X
};

void tally_window_free(struct tally_window *window)
{
    if (!window)
        return;
    stackset_free(window->set);
    free(window);
}
