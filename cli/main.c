#include "cli/cmd.h"
#include "common/log.h"

#include <locale.h>

int main(int argc, char **argv)
{
    log_init("fleetprof", LOG_LEVEL_WARN);
    /* Names are UTF-8 whatever the user's locale; it is needed for the width of characters only. */
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmd_run(argc, argv);
}
