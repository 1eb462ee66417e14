#undef NDEBUG
#include "../src/stats.h"

#include <assert.h>
#include <stdio.h>

int main(void)
{
    struct stats s = {0};

    assert(stats_average(&s) == 0);
    stats_received(&s, 100);
    stats_received(&s, 300);
    assert(s.min_us == 100);
    assert(s.max_us == 300);
    assert(stats_average(&s) == 200);
    assert(stats_jitter(&s) == 200);
    puts("stats: ok");
    return 0;
}
