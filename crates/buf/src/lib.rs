//! Data buffers: who may write them is who owns them
