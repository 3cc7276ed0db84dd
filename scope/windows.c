/* One-sided communication and collective file calls. See scope.h. */
#include "scope.h"

void scope_window_rows(struct report *report, int *room) {
    (void)report;
    (void)room;
}

void scope_forget_windows(void) {}
