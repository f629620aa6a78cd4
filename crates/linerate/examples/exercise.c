/* Writes a volume and reads it back by calls that wait and by requests that go on: `exercise URL`. Overwrites the first
 * 64 KiB of the volume. Shows, and in the project's tests proves, the C interface. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linerate.h"

#define REQUESTS 16
#define LENGTH 4096

_Static_assert(sizeof(linerate_disk_geometry) == 24 && offsetof(linerate_disk_geometry, features) == 20, "geometry");
_Static_assert(sizeof(linerate_exchange) == 24 && offsetof(linerate_exchange, len) == 16, "exchange");
_Static_assert(sizeof(linerate_request) == 32 && offsetof(linerate_request, offset) == 8
                   && offsetof(linerate_request, memory) == 24, "request");

/* Requests under way, and the worst end of one. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int left;
	linerate_status worst;
};

static void done(void *context, linerate_status status)
{
	struct wait *wait = context;

	pthread_mutex_lock(&wait->lock);
	wait->left--;
	if (status)
		wait->worst = status;
	pthread_cond_signal(&wait->changed);
	pthread_mutex_unlock(&wait->lock);
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, linerate_error_text());
	exit(1);
}

/* Starts a request for each piece of memory, and waits for all of them. */
static void all(const linerate_disk *disk, uint32_t kind, unsigned char *memory)
{
	struct wait wait = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, REQUESTS, LINERATE_OK };
	int number;

	for (number = 0; number < REQUESTS; number++) {
		linerate_request request = { kind, (uint64_t) number * LENGTH, LENGTH, memory + number * LENGTH };

		if (linerate_submit(disk, &request, done, &wait))
			fail("submit");
	}
	pthread_mutex_lock(&wait.lock);
	while (wait.left)
		pthread_cond_wait(&wait.changed, &wait.lock);
	pthread_mutex_unlock(&wait.lock);
	if (wait.worst) {
		fprintf(stderr, "request: %s\n", linerate_status_text(wait.worst));
		exit(1);
	}
}

int main(int count, char **words)
{
	size_t length = REQUESTS * LENGTH;
	unsigned char *memory = linerate_alloc(length), *back = linerate_alloc(length);
	linerate_disk_geometry geometry;
	linerate_client *client;
	linerate_disk *disk;
	size_t at;

	if (count != 2) {
		fprintf(stderr, "usage: exercise URL\n");
		return 2;
	}
	if (linerate_start(0, &client))
		fail("start");
	if (linerate_open(client, words[1], &disk))
		fail("open");
	linerate_end(client); /* the disk keeps it */
	linerate_geometry(disk, &geometry);
	if (!memory || !back)
		fail("memory");
	for (at = 0; at < length; at++)
		memory[at] = (unsigned char) (at * 31 / 7);
	all(disk, LINERATE_REQUEST_WRITE, memory);
	if (linerate_flush(disk) || linerate_read(disk, 0, back, length))
		fail("read");
	if (memcmp(memory, back, length)) {
		fprintf(stderr, "what was read is not what was written\n");
		return 1;
	}
	if (linerate_write_durable(disk, 4096, memory, 4096) || linerate_write_zeroes(disk, 0, 4096))
		fail("write");
	memset(back, 1, length);
	all(disk, LINERATE_REQUEST_READ, back);
	for (at = 0; at < 4096; at++) {
		if (back[at] || back[4096 + at] != memory[at]) {
			fprintf(stderr, "byte %zu is wrong\n", at);
			return 1;
		}
	}
	if (geometry.features & LINERATE_FEATURE_COMPARE) {
		linerate_exchange exchange = { memory, back, geometry.block_size };

		if (linerate_compare_and_write(disk, 4096, &exchange))
			fail("compare and write");
		if (linerate_compare_and_write(disk, 4096, &exchange) != LINERATE_MISCOMPARE) {
			fprintf(stderr, "a difference was not noticed\n");
			return 1;
		}
	}
	if (linerate_discard(disk, 0, 65536))
		fail("discard");
	if (linerate_read(disk, 1, back, 512) != LINERATE_MISALIGNED) {
		fprintf(stderr, "a read across blocks was not refused\n");
		return 1;
	}
	printf("linerate %s: %llu bytes in blocks of %u; refused as it should be: %s\n", linerate_version(),
	       (unsigned long long) geometry.size, geometry.block_size, linerate_error_text());
	linerate_close(disk);
	linerate_free(memory);
	linerate_free(back);
	return 0;
}
