//! One thin event loop per core: io_uring, or epoll where it is blocked
