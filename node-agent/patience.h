/* patience: work that may hang in the kernel (a file whose server is gone), done by a thread that can be
 * left behind: who waits gets on after a stated time.
 * Shapes:    a job is the caller's struct with struct patience_job first; run touches nothing but the job.
 * Limits:    PATIENCE_MAX_LEFT threads hang at a time; while they do, further jobs are refused.
 * Ownership: the job is the caller's before and after; but after -ETIMEDOUT it is gone: discard frees it
 *            once it comes back, perhaps never.
 * Threads:   one at a time may call.
 * Errors:    below. */
#ifndef NODE_AGENT_PATIENCE_H
#define NODE_AGENT_PATIENCE_H

#define PATIENCE_MAX_LEFT 8u

struct patience;

struct patience_job {
    void (*run)(struct patience_job *job);     /* on another thread */
    void (*discard)(struct patience_job *job); /* on that thread, when nobody waited for the end */
};

struct patience *patience_new(void);
void patience_free(struct patience *patience); /* NULL is fine; does not wait for those left behind */
/* 0 done; -ETIMEDOUT left behind after wait_ms; -EBUSY not begun: too many hang; -EAGAIN not begun: no
 * thread. */
int patience_run(struct patience *patience, struct patience_job *job, unsigned wait_ms);
unsigned patience_left_count(const struct patience *patience); /* threads that hang now */

#endif
