/* fio's side of the engine: the only file that sees fio's structures. Everything behind it is in shim.rs.
 *
 * A job's volumes are its files, in the order of uri=. Sizes are found out in setup, which runs before fio forks; what
 * is used is opened in init, in the process or thread that uses it. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"

#define MOST_VOLUMES 256

struct request {
	void *handle;
	void *memory;
	uint64_t len;
	uint64_t offset;
	uint32_t disk;
	uint32_t kind;
};

enum { READ, WRITE, WRITE_DURABLE, TRIM, FLUSH };

intptr_t linerate_fio_sizes(const char *uri, uint64_t *sizes, size_t room);
void *linerate_fio_open(const char *uri, int64_t spin);
void linerate_fio_close(void *session);
int linerate_fio_queue(void *session, const struct request *request);
int linerate_fio_fetch(void *session, uint32_t least, uint32_t most, int64_t nanoseconds);
void *linerate_fio_event(const void *session, uint32_t index, int *error);
void *linerate_fio_memory(void *session, size_t len, void **memory);
void linerate_fio_release(void *owner);

/* What a job has. */
struct job {
	void *session;
	void *memory; /* who owns the buffers */
};

struct engine_options {
	void *pad; /* fio keeps its job's address at offset 0 */
	char *uri;
	int spin;
};

static struct fio_option options[] = {
	{
		.name = "uri",
		.lname = "volume URL",
		.help = "volumes, separated by spaces: iscsi://…, nvme+tcp://…, file:…, ram:…, with filters",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, uri),
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "spin",
		.lname = "spin time in microseconds",
		.help = "how long to look for an answer before sleeping; -1 for what suits the machine",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, spin),
		.def = "-1",
		.minval = -1,
		.maxval = 1000000,
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{ .name = NULL },
};

void linerate_fio_say(const char *text)
{
	log_err("linerate: %s\n", text);
}

static const struct engine_options *options_of(struct thread_data *td)
{
	return td->eo;
}

static int engine_setup(struct thread_data *td)
{
	uint64_t sizes[MOST_VOLUMES];
	intptr_t count, at;
	char name[32];

	if (td->o.filename) {
		linerate_fio_say("filename= has no meaning here: name the volumes by uri=, separated by spaces");
		return 1;
	}
	count = linerate_fio_sizes(options_of(td)->uri, sizes, MOST_VOLUMES);
	if (count < 0)
		return 1;
	for (at = 0; at < count; at++) {
		if ((unsigned int) at >= td->files_index) {
			snprintf(name, sizeof(name), "volume.%d", (int) at);
			add_file(td, name, td->thread_number, 0);
			td->o.open_files++;
		}
		td->files[at]->real_file_size = sizes[at];
	}
	td->o.nr_files = count;
	return 0;
}

static int engine_init(struct thread_data *td)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return 1;
	job->session = linerate_fio_open(options_of(td)->uri, options_of(td)->spin);
	if (!job->session) {
		free(job);
		return 1;
	}
	td->io_ops_data = job;
	return 0;
}

static void *session_of(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	return job->session;
}

/* Buffers lie where the volumes reach them without a copy, if there is such a place. */
static int engine_iomem_alloc(struct thread_data *td, size_t len)
{
	struct job *job = td->io_ops_data;

	job->memory = linerate_fio_memory(job->session, len, (void **) &td->orig_buffer);
	return job->memory ? 0 : 1;
}

static void engine_iomem_free(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (job && job->memory) {
		linerate_fio_release(job->memory);
		job->memory = NULL;
	}
}

static void engine_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	linerate_fio_close(job->session);
	if (job->memory)
		linerate_fio_release(job->memory);
	free(job);
	td->io_ops_data = NULL;
}

static int kind_of(const struct thread_data *td, enum fio_ddir direction)
{
	switch (direction) {
	case DDIR_READ:
		return READ;
	case DDIR_WRITE:
		return td->o.sync_io ? WRITE_DURABLE : WRITE;
	case DDIR_TRIM:
		return TRIM;
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		return FLUSH;
	default:
		return -1;
	}
}

/* Only stores: the request goes out when fio asks for completions, as it does before it waits for anything. */
static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	int kind = kind_of(td, io_u->ddir);
	struct request request = {
		.handle = io_u,
		.memory = io_u->xfer_buf,
		.len = io_u->xfer_buflen,
		.offset = io_u->offset,
		.disk = io_u->file->fileno,
		.kind = kind,
	};

	fio_ro_check(td, io_u);
	io_u->error = kind < 0 ? EOPNOTSUPP : linerate_fio_queue(session_of(td), &request);
	if (!io_u->error)
		return FIO_Q_QUEUED;
	td_verror(td, io_u->error, "xfer");
	return FIO_Q_COMPLETED;
}

static int engine_getevents(struct thread_data *td, unsigned int least, unsigned int most, const struct timespec *limit)
{
	int64_t nanoseconds = limit ? (int64_t) limit->tv_sec * 1000000000 + limit->tv_nsec : -1;

	return linerate_fio_fetch(session_of(td), least, most, nanoseconds);
}

static struct io_u *engine_event(struct thread_data *td, int index)
{
	int error = 0;
	struct io_u *io_u = linerate_fio_event(session_of(td), index, &error);

	if (io_u) {
		io_u->error = error;
		io_u->resid = 0;
	}
	return io_u;
}

/* A volume has no descriptor, and no cache on this side. */
static int engine_nothing(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

static struct ioengine_ops operations = {
	.name = "linerate",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_NO_OFFLOAD,
	.setup = engine_setup,
	.init = engine_init,
	.cleanup = engine_cleanup,
	.iomem_alloc = engine_iomem_alloc,
	.iomem_free = engine_iomem_free,
	.queue = engine_queue,
	.getevents = engine_getevents,
	.event = engine_event,
	.open_file = engine_nothing,
	.close_file = engine_nothing,
	.invalidate = engine_nothing,
	.options = options,
	.option_struct_size = sizeof(struct engine_options),
};

/* fio checks the version of its table only, which stays while other structures change. */
void *linerate_fio_operations(void)
{
	if (strcmp(fio_version_string, ENGINE_FIO_VERSION)) {
		fprintf(stderr,
			"linerate: this engine was built for %s and cannot run in %s: build it against that release's source\n",
			ENGINE_FIO_VERSION, fio_version_string);
		return NULL;
	}
	return &operations;
}
