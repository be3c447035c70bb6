/* link_close: closes an nng socket, and goes on when nng does not come back from it.
 * Rules:   nng 1.5.2 can wait for ever in nng_close when a connection comes up or goes at that moment (its reaper and
 *          the closer wait for each other). After LINK_CLOSE_MS the socket is left to itself: what its callbacks use
 *          must then not be freed.
 * Threads: any; not from an nng callback.   Errors: false: it did not end in time, logged. */
#ifndef COMMON_LINK_CLOSE_H
#define COMMON_LINK_CLOSE_H

#include <stdbool.h>

#include <nng/nng.h>

#define LINK_CLOSE_MS 2000u

bool link_close(nng_socket socket);

#endif
