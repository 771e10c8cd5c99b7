//! Storages that are wrong in one way each, and the case that must reject each of them.

mod feed;
mod remains;

use std::any::Any;
use std::sync::Arc;

use sluicegate::identity::ExecutionId;
use sluicegate::replay::Standing;
use sluicegate::state::{ClosePolicy, Outcome, State};
use sluicegate::storage::conformance::{Concurrency, Subject, run_all, run_some};
use sluicegate::storage::{
    ChangeId, ClaimQuery, CountQuery, Edge, EdgeFlip, EdgeKey, EdgeListing, EndedFlow, EndedScan,
    EventKey, Execution, ExecutionListing, ExecutionWrite, FedGroup, Flow, FlowListing, FlowPage,
    Grant, Group, Guarded, Input, InputQuery, MemberQuery, NewEvent, OverdueScan, Page, PlanQuery,
    ProgressWrite, Request, ResultChange, SiblingRequest, Summary, Tags, UpstreamScan, Verb,
};
use sluicegate::summary::Counted;
use sluicegate_sim::database::ModelMutant;
use sluicegate_sim::database::storage::DatabaseStorage;

use crate::subjects::Model;
use crate::tampering::{Defect, Tamper, Tampering, Wrong};

struct Tampered<S> {
    inner: S,
    defect: Defect,
}

impl<S: Subject> Subject for Tampered<S> {
    type Storage = Tampering<S::Storage>;

    async fn fresh(&self) -> Self::Storage {
        Tampering { inner: self.inner.fresh().await, defect: self.defect }
    }

    fn concurrency(&self) -> Concurrency {
        self.inner.concurrency()
    }

    async fn waiting(&self, storage: &Self::Storage) -> Option<usize> {
        self.inner.waiting(&storage.inner).await
    }
}

const RIGHT: Defect = Defect { arguments: |_, _| (), reply: |_, _| (), wrong: Wrong::Nothing };

fn of_arguments(arguments: Tamper) -> Defect {
    Defect { arguments, ..RIGHT }
}

fn of_reply(reply: Tamper) -> Defect {
    Defect { reply, ..RIGHT }
}

fn of(wrong: Wrong) -> Defect {
    Defect { wrong, ..RIGHT }
}

/// Changes an argument or a reply if it is of that type.
fn change<T: 'static>(value: &mut dyn Any, change: impl FnOnce(&mut T)) {
    if let Some(value) = value.downcast_mut() {
        change(value);
    }
}

/// Runs the one case and checks that it rejects the defect.
async fn rejects(case: &str, defect: Defect) {
    let subject = Tampered { inner: Model, defect };
    let report = run_some(&subject, |one| one.name == case).await;
    assert_eq!(report.ran, 1, "there is no case {case}");
    assert!(report.broke(case), "{case} accepts a storage that is wrong");
    let right = Tampered { inner: Model, defect: RIGHT };
    run_some(&right, |one| one.name == case).await.assert_kept();
}

#[tokio::test]
async fn replies_out_of_order_are_rejected() {
    let defect = of_reply(|verb, reply| {
        if verb == Verb::LockExecutions {
            change::<Vec<Execution>>(reply, |rows| rows.reverse());
        }
    });
    rejects("locked_executions_come_in_id_order", defect).await;
    let defect = of_reply(|verb, reply| {
        if verb == Verb::ClaimExecutions {
            let id = |grant: &Grant| grant.execution.id;
            change::<Vec<Grant>>(reply, |grants| grants.sort_by_key(id));
        }
    });
    rejects("grants_come_in_claim_order", defect).await;
    let defect = of_reply(|verb, reply| {
        if verb == Verb::PlanGroups {
            change::<Vec<ExecutionId>>(reply, |groups| groups.reverse());
        }
    });
    rejects("a_plan_holds_the_groups_of_pending_edges_in_id_order", defect).await;
}

#[tokio::test]
async fn tags_that_are_not_stored_are_rejected() {
    let defect = of_arguments(|verb, row| {
        if verb == Verb::WriteFlow {
            change::<Flow>(row, |flow| flow.tags = Tags::default());
        }
    });
    rejects("a_closed_flow_reads_back", defect).await;
}

#[tokio::test]
async fn guards_that_are_let_go_of_are_rejected() {
    let defect = of_arguments(|_, rows| {
        change::<Vec<EdgeFlip>>(rows, |rows| {
            for row in rows.iter_mut() {
                row.guarded = Guarded::No;
            }
        });
    });
    rejects("an_edge_is_flipped_once", defect).await;
    rejects("a_row_in_another_state_stays_as_it_is", of(Wrong::WriteIsUnguarded)).await;
    rejects("a_row_at_another_epoch_stays_as_it_is", of(Wrong::WriteIsUnguarded)).await;
    rejects("a_guard_holds_once", of(Wrong::WriteIsUnguarded)).await;
}

#[tokio::test]
async fn locks_that_pass_over_and_takes_that_wait_are_rejected() {
    rejects("a_take_passes_over_held_rows", of(Wrong::TakeWaits)).await;
    rejects("a_lock_waits_and_returns_the_newest_version", of(Wrong::LockPassesOver)).await;
    rejects("locks_are_taken_one_by_one_in_id_order", of(Wrong::LockPassesOver)).await;
}

#[tokio::test]
async fn ends_that_do_not_end_are_rejected() {
    rejects("a_rollback_leaves_nothing", of(Wrong::RollbackCommits)).await;
    rejects("a_commit_keeps_everything", of(Wrong::CommitForgets)).await;
    rejects("a_reader_of_one_instant_sees_no_later_commit", of(Wrong::InstantMoves)).await;
}

#[tokio::test]
async fn scans_that_leave_their_page_are_rejected() {
    fn page(argument: &mut dyn Any, tamper: fn(&mut Page)) {
        change::<UpstreamScan>(argument, |scan| tamper(&mut scan.page));
        change::<OverdueScan>(argument, |scan| tamper(&mut scan.page));
        change::<Page>(argument, tamper);
    }
    for case in [
        "upstreams_come_in_pages",
        "stuck_groups_come_in_pages",
        "overdue_executions_come_in_pages",
    ] {
        rejects(case, of_arguments(|_, scan| page(scan, |page| page.limit = 99))).await;
        rejects(case, of_arguments(|_, scan| page(scan, |page| page.after = None))).await;
    }
    for case in [
        "upstreams_are_of_their_scope",
        "stuck_groups_are_of_their_scope",
        "overdue_executions_are_of_their_scope",
    ] {
        for tamper in [
            (|_, scan| page(scan, |page| page.scope.namespace = None)) as Tamper,
            |_, scan| page(scan, |page| page.scope.instance_tag = None),
            |_, scan| page(scan, |page| page.scope.partitions.start = 0),
        ] {
            rejects(case, of_arguments(tamper)).await;
        }
    }
    let late = of_arguments(|_, scan| change::<UpstreamScan>(scan, |scan| scan.finished_by = None));
    rejects("upstreams_had_ended_by_then", late).await;
    let endless = of_arguments(|_, query| change::<PlanQuery>(query, |query| query.limit = 999));
    rejects("a_plan_stops_at_its_limit", endless).await;
}

#[tokio::test]
async fn claims_of_what_was_not_asked_for_are_rejected() {
    let checks: [(&str, Tamper); 7] = [
        ("a_row_waits_for_its_time", |_, query| {
            change::<ClaimQuery>(query, |query| query.now.0 += 1);
        }),
        ("only_the_namespace_asked_for_is_granted", |_, query| {
            change::<ClaimQuery>(query, |query| query.namespace = None);
        }),
        ("only_the_kinds_asked_for_are_granted", |_, query| {
            change::<ClaimQuery>(query, |query| query.kinds.clear());
        }),
        ("what_a_claim_excepts_is_passed_over", |_, query| {
            change::<ClaimQuery>(query, |query| query.except.clear());
        }),
        ("only_the_partitions_asked_for_are_granted", |_, query| {
            change::<ClaimQuery>(query, |query| query.partitions.start = 0);
        }),
        ("a_claim_of_nothing_grants_nothing", |_, query| {
            change::<ClaimQuery>(query, |query| query.limit += 1);
        }),
        ("a_closed_flow_starts_nothing", |_, flow| {
            change::<Flow>(flow, |flow| {
                flow.closing = flow.closing.and(Some(ClosePolicy::FlowOnly));
            });
        }),
    ];
    for (case, arguments) in checks {
        rejects(case, of_arguments(arguments)).await;
    }
}

#[tokio::test]
async fn what_is_not_stored_as_written_is_rejected() {
    let checks: [(&str, Tamper); 6] = [
        ("values_at_the_edges_of_progress_read_back", |_, row| {
            change::<ProgressWrite>(row, |row| row.progress.sequence &= u64::MAX >> 1);
        }),
        ("progress_at_another_epoch_changes_nothing", |_, row| {
            change::<ProgressWrite>(row, |row| row.epoch = 1);
        }),
        ("counters_and_decisions_are_stored", |verb, rows| {
            if verb == Verb::WriteGroups {
                change::<Vec<Group>>(rows, |rows| {
                    for row in rows.iter_mut() {
                        row.satisfied = 0;
                    }
                });
            }
        }),
        ("a_result_is_set_kept_and_cleared", |_, rows| {
            change::<Vec<ExecutionWrite>>(rows, |rows| {
                let cleared = rows.iter_mut().filter(|row| row.result == ResultChange::Clear);
                cleared.for_each(|row| row.result = ResultChange::Keep);
            });
        }),
        ("values_at_the_edges_of_an_execution_read_back", |_, rows| {
            change::<Vec<sluicegate::storage::NewExecution>>(rows, |rows| {
                for row in rows.iter_mut() {
                    row.execution.epoch &= u64::MAX >> 1;
                }
            });
        }),
        ("every_outcome_and_instant_reads_back", |_, rows| {
            change::<Vec<NewEvent>>(rows, |rows| {
                for row in rows.iter_mut() {
                    row.occurred_at.0 = row.occurred_at.0.max(0);
                }
            });
        }),
    ];
    for (case, arguments) in checks {
        rejects(case, of_arguments(arguments)).await;
    }
}

#[tokio::test]
async fn what_changes_a_flow_and_is_wrong_is_rejected() {
    let checks: [(&str, Tamper); 5] = [
        ("a_closed_flow_reads_back", |_, row| {
            change::<Flow>(row, |row| row.closed_by = None);
        }),
        ("only_the_reply_of_a_record_changes", |verb, row| {
            if verb == Verb::InsertRequest {
                change::<Request>(row, |row| row.content_hash = [8; 32]);
            }
        }),
        ("the_backlog_comes_in_pages", |_, page| {
            change::<FlowPage>(page, |page| page.after = None);
        }),
        ("members_that_have_not_ended_come_in_pages", |_, query| {
            change::<MemberQuery>(query, |query| query.after = None);
        }),
        ("served_sibling_requests_are_gone", |verb, rows| {
            if verb == Verb::DeleteSiblingRequests {
                change::<Vec<SiblingRequest>>(rows, Vec::clear);
            }
        }),
    ];
    for (case, arguments) in checks {
        rejects(case, of_arguments(arguments)).await;
    }
    let shuffled = of_reply(|_, reply| {
        change::<Vec<FedGroup>>(reply, |groups| groups.reverse());
    });
    rejects("groups_that_are_fed_come_in_key_order", shuffled).await;
}

#[tokio::test]
async fn lists_that_leave_their_page_are_rejected() {
    fn flows(argument: &mut dyn Any, tamper: fn(&mut FlowPage)) {
        change::<FlowPage>(argument, tamper);
        change::<FlowListing>(argument, |listing| tamper(&mut listing.page));
    }
    for case in ["flows_with_change_rows_come_in_pages", "listed_flows_come_in_pages"] {
        rejects(case, of_arguments(|_, list| flows(list, |page| page.limit = 99))).await;
        rejects(case, of_arguments(|_, list| flows(list, |page| page.after = None))).await;
    }
    for case in ["flows_with_change_rows_are_of_their_scope", "listed_flows_are_of_their_scope"] {
        for tamper in [
            (|_, list| flows(list, |page| page.scope.namespace = None)) as Tamper,
            |_, list| flows(list, |page| page.scope.instance_tag = None),
            |_, list| flows(list, |page| page.scope.partitions.start = 0),
        ] {
            rejects(case, of_arguments(tamper)).await;
        }
    }
    let checks: [(&str, Tamper); 8] = [
        ("listed_flows_have_a_status_asked_for", |_, list| {
            change::<FlowListing>(list, |list| list.statuses.clear());
        }),
        ("listed_executions_come_in_pages", |_, list| {
            change::<ExecutionListing>(list, |list| list.page.after = None);
        }),
        ("listed_executions_are_of_their_scope", |_, list| {
            change::<ExecutionListing>(list, |list| list.page.scope.instance_tag = None);
        }),
        ("listed_executions_are_in_a_state_asked_for", |_, list| {
            change::<ExecutionListing>(list, |list| list.states.clear());
        }),
        ("listed_executions_are_of_the_flow_asked_for", |_, list| {
            change::<ExecutionListing>(list, |list| list.flow = None);
        }),
        ("edges_into_an_execution_come_in_pages", |_, list| {
            change::<EdgeListing>(list, |list| list.after = None);
        }),
        ("edges_out_of_an_execution_come_in_pages", |_, list| {
            change::<EdgeListing>(list, |list| list.limit += 1);
        }),
        ("an_edge_is_found_by_its_ends", |_, key| {
            change::<EdgeKey>(key, |key| std::mem::swap(&mut key.upstream, &mut key.downstream));
        }),
    ];
    for (case, arguments) in checks {
        rejects(case, of_arguments(arguments)).await;
    }
}

#[tokio::test]
async fn summaries_that_count_wrongly_are_rejected() {
    let checks: [(&str, Tamper); 4] = [
        ("alike_executions_are_counted_together", |_, rows| {
            change::<Vec<Counted>>(rows, |rows| rows.truncate(5));
        }),
        ("the_first_unhandled_failure_is_found", |_, found| {
            change::<Option<ExecutionId>>(found, |found| *found = None);
        }),
        ("change_rows_are_taken_once", |verb, rows| {
            if verb == Verb::DeleteFlowChanges {
                change::<Vec<ChangeId>>(rows, |rows| rows.reverse());
            }
        }),
        ("locked_summaries_come_in_key_order", |_, rows| {
            change::<Vec<Summary>>(rows, |rows| rows.reverse());
        }),
    ];
    for (case, reply) in checks {
        rejects(case, of_reply(reply)).await;
    }
    let checks: [(&str, Tamper); 2] = [
        ("a_locked_summary_is_stored", |verb, row| {
            if verb == Verb::WriteSummary {
                change::<Summary>(row, |row| row.counts.0[8] = 0);
            }
        }),
        ("delayed_executions_are_told_apart_on_demand", |_, query| {
            change::<CountQuery>(query, |query| query.now = None);
        }),
    ];
    for (case, arguments) in checks {
        rejects(case, of_arguments(arguments)).await;
    }
}

#[tokio::test]
async fn retention_that_takes_too_much_or_too_little_is_rejected() {
    let arguments: [(&str, Tamper); 8] = [
        ("flows_that_are_over_had_ended_by_then", |_, scan| {
            change::<EndedScan>(scan, |scan| scan.ended_by.0 += 1);
        }),
        ("flows_that_are_over_come_in_pages", |_, scan| {
            change::<EndedScan>(scan, |scan| scan.after = None);
        }),
        ("flows_that_are_over_come_in_pages", |_, scan| {
            change::<EndedScan>(scan, |scan| scan.limit += 1);
        }),
        ("flows_that_are_over_are_of_their_scope", |_, scan| {
            change::<EndedScan>(scan, |scan| scan.scope.namespace = None);
        }),
        ("events_are_counted_with_a_place_and_without", |verb, ids| {
            if verb == Verb::CountEvents {
                change::<Vec<ExecutionId>>(ids, |ids| ids.truncate(1));
            }
        }),
        ("history_is_taken_away_with_its_execution", |verb, ids| {
            if verb == Verb::DeleteAttempts {
                change::<Vec<ExecutionId>>(ids, Vec::clear);
            }
        }),
        ("groups_and_executions_are_taken_away", |verb, ids| {
            if verb == Verb::DeleteExecutions {
                change::<Vec<ExecutionId>>(ids, |ids| ids.truncate(1));
            }
        }),
        ("events_are_taken_away_by_their_keys", |_, keys| {
            change::<Vec<EventKey>>(keys, |keys| keys.truncate(1));
        }),
    ];
    for (case, arguments) in arguments {
        rejects(case, of_arguments(arguments)).await;
    }
    let order: Tamper = |_, found| change::<Vec<EndedFlow>>(found, |found| found.reverse());
    let case = "flows_that_are_over_come_in_the_order_in_which_they_ended";
    rejects(case, of_reply(order)).await;
}

#[tokio::test]
async fn growth_that_reads_wrongly_is_rejected() {
    let replies: [(&str, Tamper); 5] = [
        ("the_edges_of_groups_come_in_key_order", |_, rows| {
            change::<Vec<Edge>>(rows, |rows| rows.reverse());
        }),
        ("edges_are_read_with_what_the_transaction_wrote", |verb, rows| {
            if verb == Verb::ReadEdges {
                change::<Vec<Edge>>(rows, Vec::clear);
            }
        }),
        ("every_path_that_leads_to_an_execution_is_found", |_, rows| {
            change::<Vec<EdgeKey>>(rows, |rows| rows.truncate(3));
        }),
        ("a_cycle_is_walked_once", |_, rows| {
            change::<Vec<EdgeKey>>(rows, |rows| rows.push(rows[0]));
        }),
        ("the_edges_of_a_flow_are_counted", |_, counted| {
            change::<u64>(counted, |counted| *counted += 1);
        }),
    ];
    for (case, reply) in replies {
        rejects(case, of_reply(reply)).await;
    }
}

#[tokio::test]
async fn inputs_that_are_wrong_are_rejected() {
    let replies: [(&str, Tamper); 3] = [
        ("inputs_come_in_key_order", |_, rows| {
            change::<Vec<Input>>(rows, |rows| rows.reverse());
        }),
        ("results_are_those_of_the_incarnation_that_is_meant", |_, rows| {
            change::<Vec<Input>>(rows, |rows| {
                for row in rows.iter_mut() {
                    row.result = Some(Arc::from(*b"result"));
                }
            });
        }),
        ("results_are_shown_up_to_a_limit", |_, rows| {
            change::<Vec<Input>>(rows, |rows| rows.retain(|row| row.result.is_some()));
        }),
    ];
    for (case, reply) in replies {
        rejects(case, of_reply(reply)).await;
    }
    let arguments: [(&str, Tamper); 5] = [
        ("results_are_shown_up_to_a_limit", |_, query| {
            change::<InputQuery>(query, |query| query.bytes_max += 1);
        }),
        ("inputs_come_in_pages", |_, query| {
            change::<InputQuery>(query, |query| query.after = None);
        }),
        ("inputs_come_in_pages", |_, query| {
            change::<InputQuery>(query, |query| query.limit = 9);
        }),
        ("an_edge_keeps_what_it_passes_on", |_, rows| {
            change::<Vec<EdgeFlip>>(rows, |rows| rows[0].input = Some(Outcome::Failed));
        }),
        ("an_edge_that_is_reset_passes_nothing_on", |verb, keys| {
            if verb == Verb::ResetEdges {
                change::<Vec<EdgeKey>>(keys, |keys| keys.truncate(0));
            }
        }),
    ];
    for (case, reply) in arguments {
        rejects(case, of_arguments(reply)).await;
    }
}

#[tokio::test]
async fn replays_that_read_or_write_wrongly_are_rejected() {
    let replies: [(&str, Tamper); 3] = [
        ("standings_come_in_id_order", |_, rows| {
            change::<Vec<Standing>>(rows, |rows| rows.reverse());
        }),
        ("standings_show_what_the_transaction_wrote", |_, rows| {
            change::<Vec<Standing>>(rows, |rows| rows[0].state = State::Ready);
        }),
        ("an_edge_that_is_reset_is_pending_again", |verb, found| {
            if verb == Verb::ResetEdges {
                change::<u64>(found, |found| *found += 1);
            }
        }),
    ];
    for (case, reply) in replies {
        rejects(case, of_reply(reply)).await;
    }
    let forgetful: Tamper = |verb, keys| {
        if verb == Verb::ResetEdges {
            change::<Vec<EdgeKey>>(keys, |keys| keys.truncate(1));
        }
    };
    for case in
        ["an_edge_that_is_reset_is_pending_again", "an_edge_that_is_reset_is_resolved_again"]
    {
        rejects(case, of_arguments(forgetful)).await;
    }
}

/// The simulated Postgres with a planted bug.
struct Planted(ModelMutant);

impl Subject for Planted {
    type Storage = DatabaseStorage;

    async fn fresh(&self) -> DatabaseStorage {
        let storage = DatabaseStorage::new();
        storage.with_database(|database| database.mutant = Some(self.0));
        storage
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::RowLocks
    }

    async fn waiting(&self, storage: &DatabaseStorage) -> Option<usize> {
        Some(storage.waiting())
    }
}

#[tokio::test]
async fn planted_bugs_of_the_model_are_rejected() {
    for (mutant, case) in [
        (ModelMutant::M02, "rows_added_while_a_lock_waits_are_left_out"),
        (ModelMutant::M04, "a_lock_is_exclusive_among_groups_too"),
        (ModelMutant::M05, "a_claim_passes_over_held_rows"),
    ] {
        let report = run_all(&Planted(mutant)).await;
        assert!(report.broke(case), "{case} accepts {}:\n{report}", mutant.id());
    }
}
