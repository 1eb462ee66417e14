#include "probe.h"
#include "util.h"
#include "wire.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int probe_open(const char *host, const char *port, int timeout_ms)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *list;
    struct timeval wait = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int fd;
    int saved;

    if (getaddrinfo(host, port, &hints, &list) != 0) {
        errno = EHOSTUNREACH;
        return -1;
    }
    fd = socket(list->ai_family, list->ai_socktype, list->ai_protocol);
    if (fd < 0) {
        saved = errno;
        freeaddrinfo(list);
        errno = saved;
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
        connect(fd, list->ai_addr, list->ai_addrlen) < 0) {
        saved = errno;
        close(fd);
        freeaddrinfo(list);
        errno = saved;
        return -1;
    }
    freeaddrinfo(list);
    return fd;
}

enum probe_status probe_once(int fd, uint32_t seq, size_t size, uint32_t *rtt_us)
{
    uint8_t buffer[PROBE_PACKET_MAX];
    struct probe_packet packet = {.type = PROBE_REQUEST, .seq = seq, .length = (uint16_t)size};
    size_t length;
    ssize_t n;

    memset(packet.payload, 'x', size);
    packet.sent_us = now_us();
    length = wire_encode(buffer, &packet);
    if (send(fd, buffer, length, 0) < 0) {
        return PROBE_ERROR;
    }

    for (;;) {
        n = recv(fd, buffer, sizeof(buffer), 0);
        if (n < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK ? PROBE_TIMEOUT : PROBE_ERROR;
        }
        if (wire_decode(buffer, (size_t)n, &packet) != 0 || packet.type != PROBE_REPLY) {
            continue;
        }
        if (packet.seq == seq) {
            *rtt_us = now_us() - packet.sent_us;
            return PROBE_OK;
        }
    }
}
