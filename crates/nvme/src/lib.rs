//! NVMe over Fabrics with the TCP transport: controller and host, sans-IO
