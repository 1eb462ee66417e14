#ifndef PROBE_H
#define PROBE_H

#include <stddef.h>
#include <stdint.h>

enum probe_status { PROBE_OK, PROBE_TIMEOUT, PROBE_ERROR };

/* Returns a connected socket, or -1 with errno set. */
int probe_open(const char *host, const char *port, int timeout_ms);

/* Sends one probe and waits for its reply; errno is set for PROBE_ERROR. */
enum probe_status probe_once(int fd, uint32_t seq, size_t size, uint32_t *rtt_us);

#endif
