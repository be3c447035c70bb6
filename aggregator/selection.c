#include "aggregator/selection.h"

#include "aggregator/profile_kind.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int selection_init(struct selection *selection, const Fleetprof__Selection *message, struct err *err)
{
    *selection = (struct selection){0};
    if (!message)
        return err_say(err, -EINVAL, "no selection");
    uint32_t kind = profile_kind_find(message->kind);
    if (kind == PROFILE_KIND_NONE)
        return err_say(err, -EINVAL, "profile kind \"%.40s\" is not known", message->kind);
    selection->kind = kind;
    selection->from_ms = message->from_ms;
    selection->to_ms = message->to_ms;
    for (size_t i = 0; i < message->n_matchers; i++) {
        const Fleetprof__Matcher *matcher = message->matchers[i];
        int rc = matcher->op > LABEL_NOT_REGEX ? err_say(err, -EINVAL, "a matcher of unknown kind")
                                               : labels_add(&selection->matchers, matcher->label,
                                                            (enum label_op)matcher->op, matcher->value, err);
        if (rc < 0) {
            selection_fini(selection);
            return rc;
        }
    }
    return 0;
}

void selection_fini(struct selection *selection)
{
    labels_fini(&selection->matchers);
}

/* Takes the series out that the matcher does not let through; each label value is looked at once. */
static void apply_matcher(const struct label_matcher *matcher, const struct dictionary *dictionary,
                          uint8_t *in)
{
    uint32_t name = dictionary_find_string(dictionary, matcher->name, strlen(matcher->name));
    bool missing = label_match(matcher, "");
    enum { UNKNOWN, YES, NO };
    uint8_t *verdicts = xcalloc(dictionary->string_count, 1);
    for (uint32_t i = 0; i < dictionary->series_count; i++) {
        uint32_t value =
            name == DICTIONARY_NONE ? DICTIONARY_NONE : dictionary_label_value(dictionary, i, name);
        if (value == DICTIONARY_NONE) {
            in[i] = in[i] && missing;
            continue;
        }
        if (verdicts[value] == UNKNOWN)
            verdicts[value] = label_match(matcher, dictionary_text(dictionary, value, NULL)) ? YES : NO;
        in[i] = in[i] && verdicts[value] == YES;
    }
    free(verdicts);
}

uint8_t *selection_series(const struct selection *selection, const struct dictionary *dictionary)
{
    uint8_t *in = xmalloc(dictionary->series_count + 1);
    memset(in, 1, dictionary->series_count + 1);
    for (size_t i = 0; i < selection->matchers.count; i++)
        apply_matcher(&selection->matchers.items[i], dictionary, in);
    return in;
}

bool selection_has_node(const struct selection *selection, const char *node)
{
    for (size_t i = 0; i < selection->matchers.count; i++)
        if (strcmp(selection->matchers.items[i].name, "node") == 0 &&
            !label_match(&selection->matchers.items[i], node))
            return false;
    return true;
}
