//! The only place that names the host.
