/* analyzer: tells clang-tidy what it cannot see across files: the err_* functions return the code they are given, so a
 * caller that asks `rc < 0` knows the truth. Force-included by tidy.sh, never by the product. */
#ifndef TESTS_LINT_ANALYZER_H
#define TESTS_LINT_ANALYZER_H

#include "common/err.h"

void analyzer_use(const void *err, ...); /* never linked: the text's arguments count as used */
#define err_set(err, code, ...) (analyzer_use(err, __VA_ARGS__), (code))
#define err_say(err, code, ...) (analyzer_use(err, __VA_ARGS__), (code))

#endif
