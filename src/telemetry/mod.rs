//! Counters, histograms and logging. May use the closed label lists of `route` and `sql`.

pub mod metrics;

pub use metrics::Metrics;
