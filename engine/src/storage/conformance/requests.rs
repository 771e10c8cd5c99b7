//! What changes a flow as a whole: its lock, the records of calls, the backlog of cancels, and the
//! requests for sibling cancellation as they are found and removed.

use std::sync::Arc;

use super::rows::{
    FLOW, OTHER, SUCCEEDED, Seed, edge, edge_key, flow, group, id, ids, in_partition, member,
    ready_but, request, resolved, to_state,
};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure, ensure_same, table};
use crate::identity::{FlowId, FlowKey, Partition};
use crate::policy::{Decision, JoinPolicy, OnSatisfied};
use crate::state::{ClosePolicy, State};
use crate::storage::{
    FedGroup, Flow, FlowPage, Group, Inserted, Member, MemberQuery, Page, Request, RequestKey,
    Scope, SiblingRequest, Snapshot, StorageError, Transaction,
};
use crate::time::Timestamp;

table! { "requests";
    a_locked_flow_is_its_newest_version:
        "Locks a flow and returns it as it stands once its lock is held, if there is one.";
    a_closed_flow_reads_back:
        "Stores how a locked flow was closed, by which call, its revision and its tags.";
    nothing_else_of_a_flow_is_stored: "And nothing else of it; returns how many rows it found.";
    the_record_of_a_call_reads_back: "The record of a call, if it took effect.";
    the_record_of_a_call_stays: "Records a call that took effect; one that exists stays as it is.";
    a_record_in_flight_is_waited_for: "Waits while another transaction holds the key in flight.";
    only_the_reply_of_a_record_changes:
        "Stores the reply of a recorded call whose flow is locked, and nothing else of it.";
    flows_come_on_the_backlog_once_and_go_off_it:
        "Puts flows on the list; one that is on it stays. Takes locked flows off that list; \
         returns those that were on it, in key order.";
    a_flow_in_flight_on_the_backlog_is_waited_for: "Insert: waits on a unique key in flight.";
    the_backlog_comes_in_pages: "Flows whose members are being cancelled, in key order.";
    the_backlog_is_of_its_scope: "A keyset page of flows: what it looks at.";
    members_that_have_not_ended_come_in_pages:
        "The members of a flow that have not ended, in id order.";
    members_show_what_the_transaction_wrote: "Each verb sees its own transaction's writes.";
    groups_that_are_fed_come_in_key_order:
        "The groups that the pending out-edges of these executions lead to, in key order of the \
         edges.";
    a_fed_edge_without_a_group_is_corrupt: "An edge without a group is corrupt.";
    sibling_requests_come_in_pages:
        "Requests for sibling cancellation, in the order of their groups.";
    sibling_requests_are_of_their_scope: "A keyset page over a scope.";
    served_sibling_requests_are_gone:
        "Removes requests for sibling cancellation whose flows are locked; returns the groups of \
         those that were there, in id order.";
    a_removed_row_in_flight_is_waited_for:
        "Insert: waits on a unique key in flight; one that is being removed is one.";
}

fn numbered(partition: u16, number: u128) -> FlowKey {
    FlowKey { partition: Partition(partition), id: FlowId(uuid::Uuid::from_u128(number)) }
}

fn record(number: u16) -> Request {
    let key = RequestKey { flow: FLOW, request: request(number) };
    Request { key, content_hash: [4; 32], reply: Arc::from([0, 255, 7].as_slice()) }
}

fn sibling(number: u16) -> SiblingRequest {
    SiblingRequest { group: id(number), flow: FLOW.id }
}

async fn a_locked_flow_is_its_newest_version<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let none = scene.commit(async |one| one.lock_flow(&OTHER).await).await?;
    ensure_same!(none, None, "a flow that is not there");
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    let closed = Flow { closing: Some(ClosePolicy::FlowOnly), ..flow(FLOW) };
    let mut holder = scene.begin().await?;
    ensure_same!(holder.lock_flow(&FLOW).await?, Some(flow(FLOW)), "a flow that is free");
    let mut waiter = scene.second(async |one| one.lock_flow(&FLOW).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.write_flow(&closed).await?;
    holder.commit().await?;
    let (transaction, seen) = waiter.await?;
    ensure_same!(seen, Some(closed), "a flow whose holder has committed");
    transaction.commit().await?;
    Ok(())
}

async fn a_closed_flow_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let closings = ClosePolicy::ALL.map(Some).into_iter().chain([None]);
    for (revision, closing) in [0, 1, u64::MAX >> 1, 5].into_iter().zip(closings) {
        let closed_by = closing.map(|_| request(8));
        let tags = match closing {
            Some(policy) => {
                crate::storage::Tags::default().with("a.b", "ä\"\n").with("c.d", policy.name())
            }
            None => crate::storage::Tags::default(),
        };
        let row = Flow { closing, closed_by, revision, tags, ..flow(FLOW) };
        let found = scene
            .commit(async |one| {
                one.lock_flow(&FLOW).await?;
                one.write_flow(&row).await
            })
            .await?;
        ensure_same!(found, 1, "flows that were found");
        let seen = scene.reader().await?.describe_flow(&FLOW).await?;
        ensure_same!(seen, Some(row), "a flow that was closed");
    }
    Ok(())
}

async fn nothing_else_of_a_flow_is_stored<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let other = Flow {
        namespace: "another".into(),
        instance_tag: None,
        content_hash: [1; 32],
        request: request(99),
        created_at: Timestamp(77),
        ..flow(FLOW)
    };
    let found = scene
        .commit(async |one| {
            one.lock_flow(&FLOW).await?;
            let missing = one.write_flow(&flow(OTHER)).await?;
            Ok((one.write_flow(&other).await?, missing))
        })
        .await?;
    ensure_same!(found, (1, 0), "flows that were found");
    let seen = scene.reader().await?.describe_flow(&FLOW).await?;
    ensure_same!(seen, Some(flow(FLOW)), "a flow that was written");
    Ok(())
}

async fn the_record_of_a_call_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for (number, reply) in [(1, vec![]), (2, vec![0; 70_000])] {
        let row = Request { reply: reply.into(), ..record(number) };
        let inserted = scene.commit(async |one| one.insert_request(&row).await).await?;
        ensure_same!(inserted, Inserted::New, "a record that is new");
        let read = scene.commit(async |one| one.read_request(&row.key).await).await?;
        ensure!(read == Some(row), "a record does not read back");
    }
    for key in [
        RequestKey { flow: OTHER, request: request(1) },
        RequestKey { flow: FLOW, request: request(3) },
    ] {
        let read = scene.commit(async |one| one.read_request(&key).await).await?;
        ensure_same!(read, None, "a record that is not there");
    }
    Ok(())
}

async fn the_record_of_a_call_stays<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    scene.commit(async |one| one.insert_request(&record(1)).await).await?;
    let other = Request { content_hash: [8; 32], reply: Arc::from([1].as_slice()), ..record(1) };
    let inserted = scene.commit(async |one| one.insert_request(&other).await).await?;
    ensure_same!(inserted, Inserted::Exists, "a record that exists");
    let read = scene.commit(async |one| one.read_request(&other.key).await).await?;
    ensure_same!(read, Some(record(1)), "the record that was first");
    Ok(())
}

async fn a_record_in_flight_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for (number, commits, expected) in [(1, true, Inserted::Exists), (2, false, Inserted::New)] {
        let row = record(number);
        let mut holder = scene.begin().await?;
        holder.insert_request(&row).await?;
        let mut waiter = scene.second(async |one| one.insert_request(&row).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        match commits {
            true => holder.commit().await?,
            false => holder.rollback().await,
        }
        let (transaction, inserted) = waiter.await?;
        ensure_same!(inserted, expected, "a record whose holder has ended");
        transaction.commit().await?;
    }
    Ok(())
}

async fn only_the_reply_of_a_record_changes<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let reply: Arc<[u8]> = Arc::from([9, 9].as_slice());
    let other = Request { content_hash: [8; 32], reply: Arc::clone(&reply), ..record(1) };
    let found = scene
        .commit(async |one| {
            one.lock_flow(&FLOW).await?;
            one.insert_request(&record(1)).await?;
            Ok((one.write_request(&other).await?, one.write_request(&record(2)).await?))
        })
        .await?;
    ensure_same!(found, (1, 0), "records that were found");
    let read = scene.commit(async |one| one.read_request(&other.key).await).await?;
    ensure_same!(read, Some(Request { reply, ..record(1) }), "a record with another reply");
    Ok(())
}

/// Flows of three partitions, in key order.
const KEYS: [(u16, u128); 4] = [(3, 1), (7, 1), (7, 2), (9, 1)];

async fn listed<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    for (partition, number) in KEYS {
        let row = Flow { namespace: "tenant".into(), ..flow(numbered(partition, number)) };
        let row = match number {
            2 => Flow { namespace: "another".into(), instance_tag: None, ..row },
            _ => row,
        };
        scene.commit(async |one| one.insert_flow(&row).await).await?;
    }
    let keys = KEYS.map(|(partition, number)| numbered(partition, number));
    let shuffled = [keys[2], keys[0], keys[3], keys[1]];
    scene.commit(async |one| one.insert_cancel_backlog(&shuffled).await).await
}

fn flow_page(after: Option<FlowKey>, limit: u32) -> FlowPage {
    FlowPage { scope: Scope::default(), after, limit }
}

async fn flows_come_on_the_backlog_once_and_go_off_it<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    listed(&scene).await?;
    scene.commit(async |one| one.insert_cancel_backlog(&[FLOW]).await).await?;
    let gone = scene
        .commit(async |one| {
            one.lock_flow(&numbered(3, 1)).await?;
            one.lock_flow(&FLOW).await?;
            let gone = one.delete_cancel_backlog(&[FLOW, numbered(3, 1)]).await?;
            Ok((gone, one.delete_cancel_backlog(&[FLOW]).await?))
        })
        .await?;
    ensure_same!(gone, (vec![numbered(3, 1), FLOW], vec![]), "flows that were on the list");
    let seen = scene.reader().await?.scan_cancel_backlog(&flow_page(None, 10)).await?;
    ensure_same!(seen, [numbered(7, 2), numbered(9, 1)], "flows that are left");
    Ok(())
}

async fn a_flow_in_flight_on_the_backlog_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for commits in [false, true] {
        let mut holder = scene.begin().await?;
        holder.insert_cancel_backlog(&[FLOW]).await?;
        let mut waiter = scene.second(async |one| one.insert_cancel_backlog(&[FLOW]).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        match commits {
            true => holder.commit().await?,
            false => holder.rollback().await,
        }
        let (transaction, ()) = waiter.await?;
        transaction.rollback().await;
    }
    let seen = scene.reader().await?.scan_cancel_backlog(&flow_page(None, 10)).await?;
    ensure_same!(seen, [FLOW], "flows on the list");
    Ok(())
}

async fn the_backlog_comes_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    listed(&scene).await?;
    let keys = KEYS.map(|(partition, number)| numbered(partition, number));
    let mut reader = scene.reader().await?;
    let first = reader.scan_cancel_backlog(&flow_page(None, 3)).await?;
    ensure_same!(first, keys[..3], "the first page");
    let second = reader.scan_cancel_backlog(&flow_page(Some(keys[2]), 3)).await?;
    ensure_same!(second, keys[3..], "the second page");
    let none = reader.scan_cancel_backlog(&flow_page(Some(keys[3]), 3)).await?;
    ensure_same!(none, [], "the page after the last");
    Ok(())
}

fn scopes() -> [Scope; 3] {
    [
        Scope { partitions: 3..8, ..Scope::default() },
        Scope { namespace: Some("tenant".into()), ..Scope::default() },
        Scope { instance_tag: Some("region=north".into()), ..Scope::default() },
    ]
}

async fn the_backlog_is_of_its_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    listed(&scene).await?;
    let keys = KEYS.map(|(partition, number)| numbered(partition, number));
    let [home, tenant, tagged] = scopes();
    let own = vec![keys[0], keys[1], keys[3]];
    for (scope, expected) in
        [(home, vec![keys[0], keys[1], keys[2]]), (tenant, own.clone()), (tagged, own)]
    {
        let page = FlowPage { scope, after: None, limit: 10 };
        let seen = scene.reader().await?.scan_cancel_backlog(&page).await?;
        ensure_same!(seen, expected, "the flows of a scope");
    }
    Ok(())
}

fn members() -> Seed {
    let stranger = ready_but(6, |row| row.execution.flow = OTHER.id);
    let far = in_partition(3, member(1, State::Ready));
    let own = [
        member(1, State::Ready),
        member(2, SUCCEEDED),
        member(3, State::Blocked),
        member(5, State::Suspended),
        member(9, State::Ready),
    ];
    Seed::members(own.into_iter().chain([stranger, far]))
}

fn open(number: u16, state: State) -> Member {
    Member { id: id(number), state }
}

async fn members_that_have_not_ended_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&members()).await?;
    let read = async |after, limit| {
        let query = MemberQuery { flow: FLOW, after, limit };
        scene.commit(async |one| one.read_members(&query).await).await
    };
    let all = [
        open(1, State::Ready),
        open(3, State::Blocked),
        open(5, State::Suspended),
        open(9, State::Ready),
    ];
    ensure_same!(read(None, 10).await?, all, "the members");
    ensure_same!(read(None, 2).await?, all[..2], "the first page");
    ensure_same!(read(Some(id(3)), 2).await?, all[2..], "the second page");
    ensure_same!(read(Some(id(9)), 2).await?, [], "the page after the last");
    Ok(())
}

async fn members_show_what_the_transaction_wrote<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&members()).await?;
    let before = scene.execution(1).await?;
    let write = to_state(&before, SUCCEEDED);
    let mut transaction = scene.begin().await?;
    transaction.lock_executions(&ids(&[1])).await?;
    transaction.write_executions(&[write]).await?;
    let query = MemberQuery { flow: FLOW, after: None, limit: 1 };
    let seen = transaction.read_members(&query).await?;
    ensure_same!(seen, [open(3, State::Blocked)], "the members that are left");
    transaction.rollback().await;
    Ok(())
}

fn fed(upstream: u16, downstream: u16, policy: JoinPolicy, decision: Decision) -> FedGroup {
    FedGroup { edge: edge_key(upstream, downstream), policy, decision }
}

async fn groups_that_are_fed_come_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let race = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };
    let quorum = JoinPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun };
    let upstreams = [member(1, State::Ready), member(2, State::Ready), member(3, State::Ready)];
    let downstreams = [5, 6, 7].map(|number| member(number, State::Blocked));
    let edges = [edge(1, 6), edge(2, 5), edge(1, 5), resolved(1, 7), edge(3, 7), edge(2, 7)];
    let groups = [
        Group { decision: Decision::Satisfied, ..group(5, race, 2) },
        Group { decision: Decision::Impossible, ..group(6, quorum, 3) },
        group(7, JoinPolicy::AllOf, 3),
    ];
    let seed = Seed::members(upstreams.into_iter().chain(downstreams)).edges(edges);
    scene.seed(&Seed { groups: groups.to_vec(), ..seed }).await?;
    let read = scene.commit(async |one| one.read_fed_groups(&ids(&[2, 9, 1])).await).await?;
    let expected = [
        fed(1, 5, race, Decision::Satisfied),
        fed(2, 5, race, Decision::Satisfied),
        fed(1, 6, quorum, Decision::Impossible),
        fed(2, 7, JoinPolicy::AllOf, Decision::Undecided),
    ];
    ensure_same!(read, expected, "groups that are fed");
    Ok(())
}

async fn a_fed_edge_without_a_group_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let seed = Seed::members([member(1, State::Ready), member(5, State::Blocked)]);
    let seed = seed.edges([edge(1, 5)]);
    scene.seed(&Seed { groups: Vec::new(), ..seed }).await?;
    let mut transaction = scene.begin().await?;
    let refused = transaction.read_fed_groups(&ids(&[1])).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    Ok(())
}

async fn asked<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let other = Flow { namespace: "another".into(), instance_tag: None, ..flow(OTHER) };
    scene.commit(async |one| one.insert_flow(&other).await).await?;
    let far = Flow { key: numbered(9, 1), ..flow(FLOW) };
    scene.commit(async |one| one.insert_flow(&far).await).await?;
    let requests = sibling_rows();
    scene.commit(async |one| one.insert_sibling_requests(&requests).await).await
}

/// In the order of their groups.
fn sibling_rows() -> Vec<SiblingRequest> {
    let mut rows = [3, 4, 5, 5].map(sibling);
    rows[2].flow = OTHER.id;
    rows[3].group.partition = Partition(9);
    rows.to_vec()
}

async fn sibling_requests_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    asked(&scene).await?;
    let rows = sibling_rows();
    let mut reader = scene.reader().await?;
    let page = |after, limit| Page { scope: Scope::default(), after, limit };
    let first = reader.scan_sibling_requests(&page(None, 3)).await?;
    ensure_same!(first, rows[..3], "the first page");
    let second = reader.scan_sibling_requests(&page(Some(rows[2].group), 3)).await?;
    ensure_same!(second, rows[3..], "the second page");
    Ok(())
}

async fn sibling_requests_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    asked(&scene).await?;
    let rows = sibling_rows();
    let [home, tenant, tagged] = scopes();
    let own = vec![rows[0], rows[1], rows[3]];
    for (scope, expected) in [(home, rows[..3].to_vec()), (tenant, own.clone()), (tagged, own)] {
        let page = Page { scope, after: None, limit: 10 };
        let seen = scene.reader().await?.scan_sibling_requests(&page).await?;
        ensure_same!(seen, expected, "the requests of a scope");
    }
    Ok(())
}

async fn served_sibling_requests_are_gone<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    asked(&scene).await?;
    let gone = scene
        .commit(async |one| {
            one.lock_flow(&FLOW).await?;
            let gone = one.delete_sibling_requests(&[sibling(4), sibling(9), sibling(3)]).await?;
            Ok((gone, one.delete_sibling_requests(&[sibling(3)]).await?))
        })
        .await?;
    ensure_same!(gone, (ids(&[3, 4]), vec![]), "requests that were there");
    let page = Page { scope: Scope::default(), after: None, limit: 10 };
    let seen = scene.reader().await?.scan_sibling_requests(&page).await?;
    ensure_same!(seen, sibling_rows()[2..], "requests that are left");
    scene.commit(async |one| one.insert_sibling_requests(&[sibling(3)]).await).await?;
    let seen = scene.reader().await?.scan_sibling_requests(&page).await?;
    ensure_same!(seen.first(), Some(&sibling(3)), "a request that is made again");
    Ok(())
}

async fn a_removed_row_in_flight_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    for (commits, left) in [(false, 1), (true, 1)] {
        let scene = scene.another().await;
        asked(&scene).await?;
        let mut holder = scene.begin().await?;
        holder.lock_flow(&FLOW).await?;
        holder.delete_sibling_requests(&[sibling(3)]).await?;
        let rows = [sibling(3)];
        let mut waiter = scene.second(async |one| one.insert_sibling_requests(&rows).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        match commits {
            true => holder.commit().await?,
            false => holder.rollback().await,
        }
        let (transaction, ()) = waiter.await?;
        transaction.commit().await?;
        let page = Page { scope: Scope::default(), after: None, limit: 10 };
        let seen = scene.reader().await?.scan_sibling_requests(&page).await?;
        let found = seen.iter().filter(|row| **row == sibling(3)).count();
        ensure_same!(found, left, "requests of the group");
    }
    Ok(())
}
