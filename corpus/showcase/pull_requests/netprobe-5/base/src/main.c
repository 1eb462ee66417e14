#include "probe.h"
#include "stats.h"
#include "util.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(void)
{
    fputs("usage: netprobe [-c count] [-s size] [-t ms] host [port]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct stats stats = {0};
    unsigned long count = 0;
    long size = 32;
    int timeout_ms = 800;
    const char *port = "7117";
    int option;
    int fd;

    while ((option = getopt(argc, argv, "c:s:t:")) != -1) {
        switch (option) {
        case 'c':
            count = strtoul(optarg, NULL, 10);
            break;
        case 's':
            size = strtol(optarg, NULL, 10);
            break;
        case 't':
            timeout_ms = atoi(optarg);
            break;
        default:
            return usage();
        }
    }
    if (optind >= argc || size < 0 || size > PROBE_PAYLOAD_MAX || timeout_ms <= 0) {
        return usage();
    }
    if (optind + 1 < argc) {
        port = argv[optind + 1];
    }

    fd = probe_open(argv[optind], port, timeout_ms);
    if (fd < 0) {
        fprintf(stderr, "netprobe: %s: %s\n", argv[optind], strerror(errno));
        return 2;
    }

    for (uint32_t seq = 1; count == 0 || seq <= count; seq++) {
        uint32_t rtt_us;

        stats_sent(&stats);
        switch (probe_once(fd, seq, (size_t)size, &rtt_us)) {
        case PROBE_OK:
            stats_received(&stats, rtt_us);
            printf("seq %u: %u us\n", seq, rtt_us);
            break;
        case PROBE_TIMEOUT:
            warn_line("seq %u: no reply", seq);
            break;
        case PROBE_ERROR:
            fprintf(stderr, "netprobe: %s\n", strerror(errno));
            close(fd);
            return 2;
        }
        if (count == 0 || seq < count) {
            sleep(1);
        }
    }
    close(fd);
    printf("%u of %u replies, average %u us, jitter %u us\n", stats.received, stats.sent,
           stats_average(&stats), stats_jitter(&stats));
    return stats.received > 0 ? 0 : 1;
}
