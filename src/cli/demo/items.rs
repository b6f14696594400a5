//! The table that the demo reads and writes.

use std::fmt::Write;

use mysql_async::prelude::Queryable;

use crate::sandbox::{Error, Sandbox};

/// Rows in the table at the start; ids are 1 to this.
pub(super) const ROWS: u32 = 5_000;

/// Creates `items` on the primary and fills it.
pub(super) async fn create(sandbox: &Sandbox) -> Result<(), Error> {
    let mut root = sandbox.primary().root().await?;
    root.query_drop(format!("USE {}", Sandbox::SCHEMA)).await?;
    root.query_drop(TABLE).await?;
    for first in (1..=ROWS).step_by(BATCH) {
        root.query_drop(insert(first)).await?;
    }
    root.disconnect().await?;
    Ok(())
}

/// One statement that inserts [`BATCH`] rows.
fn insert(first: u32) -> String {
    let mut statement = "INSERT INTO items (id, title, content) VALUES ".to_owned();
    for id in (first..=ROWS).take(BATCH) {
        let separator = if id == first { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(statement, "{separator}({id}, 'Item {id}', '{}')", "lorem ipsum ".repeat(16));
    }
    statement
}

const TABLE: &str = "CREATE TABLE items (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    title VARCHAR(200) NOT NULL,
    content TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    KEY (title)
)";

const BATCH: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_begins_at_the_given_id_and_ends_at_the_last_row() {
        let statement = insert(ROWS - 1);
        assert_eq!(statement.matches("'Item ").count(), 2);
        assert!(statement.contains(&format!("({ROWS}, 'Item {ROWS}', ")));
        assert!(!statement.contains(", , ") && !statement.ends_with(", "));
    }
}
