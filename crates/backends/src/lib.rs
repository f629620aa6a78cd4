//! Volumes on files and block devices
