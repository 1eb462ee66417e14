#include "util.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

uint32_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint32_t)((uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000);
}

void warn_line(const char *format, ...)
{
    int colour = isatty(STDERR_FILENO);
    va_list args;

    fputs(colour ? "\033[33mwarning:\033[0m " : "warning: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
