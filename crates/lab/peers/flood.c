/*
 * What a plain C program gets out of UDP on this host: the yardstick of `cargo xtask prove
 * flat-out`, which runs it in turn with `fullcount send` and `receive`.
 *
 *   flood receive PORT SIZE CORE           counts what comes to 127.0.0.1:PORT
 *   flood send    PORT SIZE CORE SECONDS   sends datagrams of SIZE bytes there, flat out
 *
 * The shortest program that uses the kernel's trains: UDP_SEGMENT (GSO) to send, UDP_GRO to
 * receive, one train a call, one buffer. It looks at no byte, checks no number and keeps no
 * account beyond the sum of bytes, so it is an upper mark for a receiver that does.
 *
 * The last line of standard output is one JSON object. Rates are payload bits. The receiver's
 * time runs from the first train to the last; it ends after 1 s of silence, and gives up (exit 1)
 * if nothing came for 30 s. Refuses, with exit 2, arguments outside their ranges.
 *
 * Source: udp(7), Linux 4.18 or newer to send, 5.0 or newer to receive. Linux only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The kernel takes no longer payload in one call over IPv4: 65,535 - 20 (IP) - 8 (UDP). */
#define LONGEST 65507
/* UDP_MAX_SEGMENTS: 128 since Linux 6.9, 64 before. */
#define MOST_SEGMENTS 128
#define OLD_MOST_SEGMENTS 64
/* Holds any train that GRO builds. */
#define TRAIN 65536

static const int RECEIVE_BUFFER = 64 << 20;
static const int SEND_BUFFER = 4 << 20;

static char buffer[TRAIN];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
    exit(1);
}

static long number(const char *text, const char *name, long least, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most) {
        fprintf(stderr, "flood: %s: %ld to %ld, not `%s`\n", name, least, most, text);
        exit(2);
    }
    return value;
}

/* Asks with the privilege to pass the host's limit, then without. */
static void size_buffer(int fd, int forced, int plain, int bytes)
{
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

/* The kernel doubles what it is asked for, to cover its own overhead. */
static int buffer_size(int fd, int option)
{
    int bytes = 0;
    socklen_t length = sizeof bytes;
    getsockopt(fd, SOL_SOCKET, option, &bytes, &length);
    return bytes / 2;
}

static void report(const char *role, long size, long core, long long bytes, double seconds)
{
    double gbps = seconds > 0 ? (double)bytes * 8 / seconds / 1e9 : 0;
    printf("{\"role\":\"%s\",\"size\":%ld,\"core\":%ld,\"bytes\":%lld,\"datagrams\":%lld,"
           "\"seconds\":%.6f,\"gbps\":%.6f",
           role, size, core, bytes, bytes / size, seconds, gbps);
}

static int receive(int fd, const struct sockaddr_in *address, long size, long core)
{
    int one = 1;
    struct timeval silence = {.tv_sec = 1};
    double first = 0, last = 0;
    long long bytes = 0, calls = 0;

    size_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RECEIVE_BUFFER);
    if (setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one) != 0)
        fail("UDP_GRO");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence) != 0)
        fail("SO_RCVTIMEO");
    /* Last: whoever sees the port bound may send. */
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        fail("bind");

    double give_up = now() + 30;
    for (;;) {
        char control[256];
        struct iovec piece = {.iov_base = buffer, .iov_len = sizeof buffer};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t got = recvmsg(fd, &message, 0);
        if (got < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
                fail("recvmsg");
            if (calls > 0)
                break;
            if (now() > give_up) {
                fprintf(stderr, "flood: nothing came for 30 s\n");
                return 1;
            }
            continue;
        }
        last = now();
        if (calls == 0)
            first = last;
        calls++;
        bytes += got;
    }
    report("receive", size, core, bytes, last - first);
    printf(",\"calls\":%lld,\"receive_buffer\":%d}\n", calls, buffer_size(fd, SO_RCVBUF));
    return 0;
}

static int flood(int fd, const struct sockaddr_in *address, long size, long core, long duration)
{
    int segment = (int)size;
    long segments = LONGEST / size;
    long long bytes = 0, refused = 0;

    if (segments > MOST_SEGMENTS)
        segments = MOST_SEGMENTS;
    size_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        fail("connect");
    if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0)
        fail("UDP_SEGMENT");

    double start = now(), elapsed = 0;
    while (elapsed < (double)duration) {
        /* 16 trains for each look at the clock. */
        for (int train = 0; train < 16; train++) {
            ssize_t sent = send(fd, buffer, (size_t)(segments * size), 0);
            if (sent > 0) {
                bytes += sent;
            } else if (errno == EINVAL && bytes == 0 && segments > OLD_MOST_SEGMENTS) {
                segments = OLD_MOST_SEGMENTS;
            } else if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR) {
                refused++;
            } else {
                fail("send");
            }
        }
        elapsed = now() - start;
    }
    report("send", size, core, bytes, elapsed);
    printf(",\"segments\":%ld,\"refused\":%lld}\n", segments, refused);
    return 0;
}

int main(int count, char **words)
{
    int sends = count == 6 && strcmp(words[1], "send") == 0;
    if (!sends && !(count == 5 && strcmp(words[1], "receive") == 0)) {
        fprintf(stderr, "usage: flood receive PORT SIZE CORE | flood send PORT SIZE CORE SECONDS\n");
        return 2;
    }
    long port = number(words[2], "PORT", 1, 65535);
    long size = number(words[3], "SIZE", 1, LONGEST);
    long core = number(words[4], "CORE", 0, CPU_SETSIZE - 1);
    long duration = sends ? number(words[5], "SECONDS", 1, 3600) : 0;

    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
        fail("CORE");

    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        fail("socket");
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return sends ? flood(fd, &address, size, core, duration) : receive(fd, &address, size, core);
}
