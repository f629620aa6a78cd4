/* Linerate's C interface: volumes on this machine and on others, opened by URL.
 *
 * Link with -llinerate. Functions that can fail answer a linerate_status, 0 for success; linerate_error_text() then has
 * the words. A disk may be used by any thread, and by several at once. Nothing survives a fork: start a client in the
 * process that uses it.
 *
 *     linerate_client *client;
 *     linerate_disk *disk;
 *     char block[4096];
 *     if (linerate_start(1, &client) || linerate_open(client, "nvme+tcp://host/nqn.…/1", &disk)
 *         || linerate_read(disk, 0, block, sizeof block))
 *         fprintf(stderr, "%s\n", linerate_error_text());
 */
#ifndef LINERATE_H
#define LINERATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. The numbers stay. */
typedef enum linerate_status {
	LINERATE_OK = 0,
	LINERATE_BAD_URL = 1,
	LINERATE_CANNOT_OPEN = 2,
	LINERATE_CANNOT_START = 3,
	LINERATE_OUT_OF_RANGE = 4,
	LINERATE_MEDIA = 5,
	LINERATE_PROTECTION = 6,
	LINERATE_NO_SPACE = 7,
	LINERATE_READ_ONLY = 8,
	LINERATE_MISALIGNED = 9,
	LINERATE_UNSUPPORTED = 10,
	LINERATE_MISCOMPARE = 11,
	LINERATE_CANCELLED = 12,
	LINERATE_TIMED_OUT = 13,
	LINERATE_UNREACHABLE = 14,
	LINERATE_RESERVATION_CONFLICT = 15,
	LINERATE_SHUTTING_DOWN = 16,
	LINERATE_OTHER = 17,
	LINERATE_BUSY = 18
} linerate_status;

/* What a disk can do. */
enum {
	LINERATE_FEATURE_VOLATILE_CACHE = 1 << 0,
	LINERATE_FEATURE_DISCARD = 1 << 1,
	LINERATE_FEATURE_WRITE_ZEROES = 1 << 2,
	LINERATE_FEATURE_COMPARE = 1 << 3,
	LINERATE_FEATURE_ALLOCATION = 1 << 4,
	LINERATE_FEATURE_READ_ONLY = 1 << 5
};

/* Event loops that open volumes. */
typedef struct linerate_client linerate_client;
/* An opened volume. */
typedef struct linerate_disk linerate_disk;

/* What a disk is, in bytes. */
typedef struct linerate_disk_geometry {
	uint64_t size;
	uint32_t block_size;          /* offsets and lengths are multiples of this */
	uint32_t physical_block_size; /* what the medium writes without reading first */
	uint32_t max_transfer;        /* the longest single request of linerate_submit */
	uint32_t features;            /* LINERATE_FEATURE_… */
} linerate_disk_geometry;

/* What linerate_compare_and_write compares and writes: len bytes each. */
typedef struct linerate_exchange {
	const void *compare;
	const void *write;
	size_t len;
} linerate_exchange;

/* What linerate_submit can do. */
enum {
	LINERATE_REQUEST_READ = 0,
	LINERATE_REQUEST_WRITE = 1,
	LINERATE_REQUEST_WRITE_DURABLE = 2,
	LINERATE_REQUEST_FLUSH = 3,
	LINERATE_REQUEST_DISCARD = 4,
	LINERATE_REQUEST_WRITE_ZEROES = 5
};

/* A request of linerate_submit. */
typedef struct linerate_request {
	uint32_t kind;   /* LINERATE_REQUEST_… */
	uint64_t offset; /* bytes */
	uint64_t len;    /* bytes */
	void *memory;    /* data, or room for it: initialised, and the library's until the callback */
} linerate_request;

/* Told the end of a request, on a thread of the client's. It must not wait. */
typedef void (*linerate_callback)(void *context, linerate_status status);

/* The version, such as "0.1.0". */
const char *linerate_version(void);
/* The text of the calling thread's last failure, valid until the next one. */
const char *linerate_error_text(void);
/* What a status means, in a few words. */
const char *linerate_status_text(uint32_t status);

/* Starts so many event loops, each on a thread of its own; 0 means 1. */
linerate_status linerate_start(uint16_t cores, linerate_client **client);
/* Gives the client up; its threads end with its last disk. */
void linerate_end(linerate_client *client);

/* Opens a volume: ram:64M, file:disk.img?size=1G, iscsi://host/iqn.…/0, nvme+tcp://host/nqn.…/1, with filters. */
linerate_status linerate_open(const linerate_client *client, const char *url, linerate_disk **disk);
/* Closes it; requests under way go on to their end. */
void linerate_close(linerate_disk *disk);
/* Says what it is. */
void linerate_geometry(const linerate_disk *disk, linerate_disk_geometry *geometry);

/* Calls that wait. Offsets and lengths are multiples of the block size; reads and writes may be of any length. */
linerate_status linerate_read(const linerate_disk *disk, uint64_t offset, void *into, size_t len);
linerate_status linerate_write(const linerate_disk *disk, uint64_t offset, const void *data, size_t len);
/* Ends only once the data is on stable media. */
linerate_status linerate_write_durable(const linerate_disk *disk, uint64_t offset, const void *data, size_t len);
/* Makes every write that has ended durable. */
linerate_status linerate_flush(const linerate_disk *disk);
linerate_status linerate_discard(const linerate_disk *disk, uint64_t offset, uint64_t len);
linerate_status linerate_write_zeroes(const linerate_disk *disk, uint64_t offset, uint64_t len);
/* Writes only if the disk holds what is compared, atomically; else LINERATE_MISCOMPARE. */
linerate_status linerate_compare_and_write(const linerate_disk *disk, uint64_t offset, const linerate_exchange *exchange);

/*
 * Memory that volumes of shared memory (vhost-user:) use without a copy; others use it as any memory. It begins at a page, has zeros at first, and is
 * meant for one large piece with many buffers in it: each has whole pages and a file descriptor of its own. Null if there is none.
 */
void *linerate_alloc(size_t len);
/* Gives it back, once no request uses it; null is passed over. */
void linerate_free(void *memory);

/* Bytes that are allocated alike. */
typedef struct linerate_run {
	uint64_t offset;    /* the first byte, as the program asks */
	uint64_t len;       /* how many the program asks about, then how many of them are alike */
	uint32_t allocated; /* 0 when no space is behind them: they read as zeros */
} linerate_run;

/* Says how the bytes of a run are allocated: the first of its runs takes its place. A volume that cannot tell is allocated. */
linerate_status linerate_allocation(const linerate_disk *disk, linerate_run *run);

/* Told what a portal offers, once for each. error is null, or says why it is not known what is behind the address. */
typedef void (*linerate_found)(void *context, const char *name, const char *address, const char *error);

/* Asks iscsi://host or nvme+tcp://host what it offers, and tells found before it returns. */
linerate_status linerate_discover(const char *url, linerate_found found, void *context);

/* Starts a request without copying its data. LINERATE_OK: the callback will be called exactly once, when the request has ended and
 * nothing uses its memory any more, not even to send what a server no longer wants. Waits while as many
 * requests are under way as the disk takes, except in a callback. */
linerate_status linerate_submit(const linerate_disk *disk, const linerate_request *request, linerate_callback callback,
                                void *context);

#ifdef __cplusplus
}
#endif

#endif
