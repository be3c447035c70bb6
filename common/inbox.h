/* inbox: messages from any thread to the one that owns the state, in order.
 * The receiver is either a libuv loop (inbox_open_loop: on_message runs on the loop thread) or a plain
 * thread that blocks in inbox_wait.
 * Limits:    limit_count messages (at least 1); inbox_put then returns -EAGAIN, the sender keeps the message.
 * Ownership: a message that was put belongs to the receiver.
 * Threads:   put from any; everything else from the owner. */
#ifndef COMMON_INBOX_H
#define COMMON_INBOX_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct inbox;
typedef void (*inbox_message_fn)(void *message, void *ctx);

struct inbox *inbox_open_loop(uv_loop_t *loop, size_t limit_count, inbox_message_fn on_message, void *ctx);
struct inbox *inbox_open_thread(size_t limit_count);
int inbox_put(struct inbox *inbox, void *message);
/* Thread kind only: the next message, NULL after timeout_ms (-1: none) or when inbox_wake was called (once
 * per wake; messages inside stay for the next call). */
void *inbox_wait(struct inbox *inbox, int timeout_ms);
void inbox_wake(struct inbox *inbox);
size_t inbox_count(struct inbox *inbox);
/* Messages still inside are handed to on_left (may be NULL: then there must be none). No put may run any
 * more. Loop kind: frees itself in the handle's close callback. */
void inbox_close(struct inbox *inbox, inbox_message_fn on_left, void *ctx);

#endif
