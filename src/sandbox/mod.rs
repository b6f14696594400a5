//! Real local servers: a primary on disk and a replica in memory, joined by replication.
