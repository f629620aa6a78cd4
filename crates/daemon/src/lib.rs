//! The server: engine, reactor and backends in one process
