//! How long it takes to know what a statement is: known to the cache, and for the first time.
//!
//! Targets on one core: a known point select under 1 microsecond, an unknown one under 10.

use criterion::{Criterion, criterion_group, criterion_main};
use ramsplit::sql::{Cache, Dialect, Flavor, classify, digest};
use std::hint::black_box;

const MYSQL: Dialect = Dialect::new(Flavor::MySql, 80_036);

const JOIN: &str = "SELECT c.id, c.name, COUNT(o.id) AS orders, SUM(o.total) AS total FROM customers c \
    LEFT JOIN orders o ON o.customer_id = c.id AND o.state IN ('paid', 'sent', 'done') \
    WHERE c.region = 'north' AND c.created_at >= '2024-01-01' \
    AND c.id NOT IN (SELECT customer_id FROM blocked WHERE reason = 7) \
    GROUP BY c.id, c.name HAVING COUNT(o.id) > 3 ORDER BY total DESC LIMIT 20";

fn statements() -> Vec<(&'static str, String)> {
    let rows = vec!["(1, 'abc', 2.5, NULL, 'some longer text of a column')"; 1_000].join(", ");
    vec![
        ("begin", "BEGIN".to_owned()),
        ("point_select", "SELECT c FROM sbtest1 WHERE id=12345".to_owned()),
        ("update", "UPDATE sbtest1 SET k=k+1 WHERE id=12345".to_owned()),
        ("join", JOIN.to_owned()),
        ("insert_1000_rows", format!("INSERT INTO t (a, b, c, d, e) VALUES {rows}")),
    ]
}

fn benches(criterion: &mut Criterion) {
    let cache = Cache::new(10_000);
    for (name, text) in statements() {
        let text = text.as_bytes();
        criterion.bench_function(&format!("known/{name}"), |bencher| {
            bencher.iter(|| cache.classify(black_box(text), MYSQL));
        });
        criterion.bench_function(&format!("unknown/{name}"), |bencher| {
            bencher.iter(|| classify(black_box(text), MYSQL));
        });
        criterion.bench_function(&format!("digest/{name}"), |bencher| {
            bencher.iter(|| digest(black_box(text), MYSQL));
        });
    }
}

criterion_group!(classification, benches);
criterion_main!(classification);
