//! What the proxy makes of a replica's state: one that may miss rows serves nothing.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use ramsplit::sandbox::Flavor;
use tokio::time::sleep;

use crate::bed::{WHERE, on_both, on_replica_alone, own, target, wait_until};
use crate::proxy::Proxy;

on_both!(an_emptied_replica, a_replica_that_was_reset);

/// Replication runs and tells of no lag that is too long; only what it has executed tells that it is empty.
async fn an_emptied_replica(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start_with(&sandbox, |config| config.max_lag = Duration::from_secs(3600)).await;
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "replica");
    sandbox.replica().wipe().await.unwrap();
    sandbox.replica().start().await.unwrap();
    // The account of the monitor is among what it lacks: without one nothing would be known of it.
    let monitor = sandbox.monitor();
    let password = monitor.password.as_str();
    let create = format!("CREATE USER {} IDENTIFIED BY '{password}'", monitor.user);
    on_replica_alone(&sandbox, &create).await;
    on_replica_alone(&sandbox, &format!("GRANT ALL ON *.* TO {}", monitor.user)).await;
    let mut replica = sandbox.replica().root().await.unwrap();
    let (delay, stop, none, start) = match flavor {
        Flavor::MySql => (
            "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1000",
            "STOP REPLICA",
            "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0",
            "START REPLICA",
        ),
        Flavor::MariaDb => (
            "CHANGE MASTER TO MASTER_DELAY = 1000",
            "STOP SLAVE",
            "CHANGE MASTER TO MASTER_DELAY = 0",
            "START SLAVE",
        ),
    };
    replica.query_drop(delay).await.unwrap();
    sandbox.join_replica().await.unwrap();
    wait_until("it is found to be empty", async || {
        proxy.route_of(&mut session, WHERE).await == "primary replica_empty"
    })
    .await;
    for _ in 0..20 {
        assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary replica_empty");
        sleep(Duration::from_millis(100)).await;
    }
    on_replica_alone(&sandbox, &format!("DROP USER {}", monitor.user)).await;
    for statement in [stop, none, start] {
        replica.query_drop(statement).await.unwrap();
    }
    wait_until("its reads are on the replica", async || {
        proxy.route_of(&mut session, WHERE).await == "replica read"
    })
    .await;
    assert_eq!(
        session.query_first(WHERE).await.unwrap(),
        Some("primary".to_owned()),
        "as the primary has it"
    );
}

/// Its position goes back while it runs.
async fn a_replica_that_was_reset(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start_with(&sandbox, |config| config.max_lag = Duration::from_secs(3600)).await;
    let mut replica = sandbox.replica().root().await.unwrap();
    let statements: &[&str] = match flavor {
        Flavor::MySql => &[
            "STOP REPLICA",
            "RESET REPLICA",
            "RESET BINARY LOGS AND GTIDS",
            "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1000",
            "START REPLICA",
        ],
        Flavor::MariaDb => &[
            "STOP SLAVE",
            "SET GLOBAL gtid_slave_pos = ''",
            "CHANGE MASTER TO MASTER_DELAY = 1000",
            "START SLAVE",
        ],
    };
    for statement in statements {
        replica.query_drop(*statement).await.unwrap();
    }
    wait_until("it serves no more", async || !proxy.replica_is_up()).await;
    sleep(Duration::from_secs(1)).await;
    assert!(!proxy.replica_is_up());
}
