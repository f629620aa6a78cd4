//! The site file: which hosts, devices and links a scenario's arms are bound to.
