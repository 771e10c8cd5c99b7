//! Storages that give up wrongly, in one way each.

use sluicegate::retry::RetryPolicy;
use sluicegate::storage::{Execution, Group, Remains, Verb};

use super::{change, of_arguments, of_reply, rejects};
use crate::tampering::Tamper;

#[tokio::test]
async fn remains_that_are_wrong_are_rejected() {
    let arguments: [(&str, Tamper); 4] = [
        ("an_execution_is_written_anew_whatever_it_held", |_, rows| {
            change::<Vec<Execution>>(rows, |rows| rows[0].progress = None);
        }),
        ("an_execution_is_written_anew_whatever_it_held", |_, rows| {
            change::<Vec<Execution>>(rows, |rows| {
                for row in rows.iter_mut() {
                    row.retry = RetryPolicy { max_attempts: 9, ..row.retry };
                }
            });
        }),
        ("values_at_the_edges_of_a_mended_row_read_back", |_, rows| {
            change::<Vec<Execution>>(rows, |rows| {
                for row in rows.iter_mut() {
                    row.deadline = row.deadline.filter(|at| at.0 != i64::MAX);
                }
            });
        }),
        ("what_is_not_there_is_not_mended", |_, rows| {
            change::<Vec<Execution>>(rows, |rows| rows.truncate(0));
        }),
    ];
    for (case, arguments) in arguments {
        rejects(case, of_arguments(arguments)).await;
    }
    let replies: [(&str, Tamper); 2] = [
        ("what_can_be_read_is_held_as_it_is_locked", |verb, rows| {
            if verb == Verb::HoldExecutions {
                change::<Vec<Remains<Execution>>>(rows, |rows| {
                    rows[0].unreadable = Some("all of it".into());
                });
            }
        }),
        ("what_can_be_read_is_held_as_it_is_locked", |verb, rows| {
            if verb == Verb::HoldGroups {
                change::<Vec<Remains<Group>>>(rows, |rows| rows[0].row.edges = 0);
            }
        }),
    ];
    for (case, reply) in replies {
        rejects(case, of_reply(reply)).await;
    }
}
