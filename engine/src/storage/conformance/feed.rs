//! The feed: heads of streams, places of events, pages, and the cursors of consumers.

use uuid::Uuid;

use super::rows::{SUCCEEDED, Seed, event, id_in, in_partition, lease_event, member};
use super::scene::{Scene, Tx};
use super::{Breach, Case, Subject, Verdict, ensure, ensure_same, table};
use crate::identity::ExecutionId;
use crate::storage::{
    ConsumerName, EventKind, EventPosition, FeedFilter, FeedQuery, FeedRows, Inserted, LeaseChange,
    NewEvent, Position, Result, Scope, Snapshot, StreamHead, StreamId, Subscription, Timeline,
    Transaction, UnnumberedEvent, UnnumberedQuery, Wanted,
};

table! { "feed";
    a_stream_begins_before_its_first_event: "Locks the head of a stream and returns it.";
    a_head_moves_forward_only: "Neither moves back: a head that has come further stays.";
    a_locked_head_is_waited_for: "Returns it as it stands once its lock is held.";
    events_get_their_places_in_the_order_of_their_numbers:
        "Gives locked events their positions; events come by position.";
    an_event_that_has_its_place_keeps_it: "An event that has a position keeps it.";
    events_without_a_place_come_up_to_the_limit:
        "Those that have no position, in the order of their numbers, at most `limit`.";
    events_without_a_place_are_of_their_partitions: "Of these partitions.";
    an_event_that_got_its_place_meanwhile_is_left_out:
        "Returns those that have none once their lock is held.";
    an_event_without_a_place_is_not_in_the_feed: "Events without a position are not in it yet.";
    an_event_of_the_feed_is_the_one_that_was_inserted: "Events of a stream above a position.";
    the_feed_comes_in_pages: "Events above a position, by position, at most so many.";
    the_feed_is_of_its_scope: "Which of its events; applied before the limit.";
    the_feed_is_of_the_kinds_that_are_wanted: "Which of its events; applied before the limit.";
    events_of_one_incarnation_get_places_of_their_own: "Gives locked events their positions.";
    a_stream_that_nobody_made_has_no_head: "With the head of the stream, if there is one.";
    a_cursor_reads_back: "The cursor of a consumer, if it has one.";
    a_cursor_that_exists_stays_as_it_is: "One that exists stays as it is.";
    a_cursor_in_flight_is_waited_for:
        "Waits while another transaction holds its name in flight: it exists once that has \
         committed, and is new once that has rolled back.";
    a_cursor_moves_forward_only: "One that has come as far stays as it is.";
    a_cursor_of_another_timeline_stays: "One that belongs to another timeline stays as it is.";
    a_locked_cursor_is_waited_for: "Returns it as it stands once its lock is held.";
}

const STREAM: StreamId = StreamId::EVENTS;
const NOBODYS: StreamId = StreamId(999);

fn all() -> UnnumberedQuery {
    UnnumberedQuery { partitions: 0..u16::MAX, limit: 999 }
}

fn feed(after: Position, limit: u32) -> FeedQuery {
    FeedQuery { stream: STREAM, filter: FeedFilter::default(), after, limit }
}

async fn read<S: Subject>(scene: &Scene<'_, S>, query: &FeedQuery) -> Result<FeedRows, Breach> {
    Ok(scene.reader().await?.read_feed(query).await?)
}

/// Locks the head, which is there.
async fn lock<T: Transaction>(transaction: &mut T) -> Result<StreamHead, Breach> {
    let head = transaction.lock_stream_head(&STREAM).await?;
    head.ok_or_else(|| Breach::new("the stream of a new database has no head"))
}

/// Inserts events of executions that are there, and commits.
async fn insert<S: Subject>(scene: &Scene<'_, S>, rows: &[NewEvent]) -> Verdict {
    scene.commit(async |one| one.insert_events(rows).await).await
}

/// Numbers what has no place yet in an open transaction.
async fn number<T: Transaction>(one: &mut T, query: &UnnumberedQuery) -> Result<u64, Breach> {
    let head = lock(one).await?;
    let events = one.lock_unnumbered_events(query).await?;
    let rows = places(&events, head.last);
    let written = one.write_positions(&rows).await?;
    let last = rows.last().map_or(head.last, |row| row.position);
    one.write_stream_head(&StreamHead { last, ..head }).await?;
    Ok(written)
}

fn places(events: &[UnnumberedEvent], after: Position) -> Vec<EventPosition> {
    let numbered = events.iter().zip(after.0 + 1..);
    numbered
        .map(|(event, position)| EventPosition { key: event.key, position: Position(position) })
        .collect()
}

/// Numbers what has no place yet, and commits.
async fn sequence<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    number(&mut transaction, &all()).await?;
    transaction.commit().await?;
    Ok(())
}

/// Executions 1 to `last` that have ended, and their events, each in a commit of its own.
async fn ended<S: Subject>(scene: &Scene<'_, S>, last: u16) -> Verdict {
    scene.seed(&Seed::members((1..=last).map(|number| member(number, SUCCEEDED)))).await?;
    for number in (1..=last).rev() {
        insert(scene, &[event(number)]).await?;
    }
    Ok(())
}

fn executions(rows: &FeedRows) -> Vec<ExecutionId> {
    rows.events.iter().map(|row| row.event.event.execution).collect()
}

fn numbers(rows: &[ExecutionId]) -> Vec<u128> {
    rows.iter().map(|id| id.uuid.as_u128()).collect()
}

async fn a_stream_begins_before_its_first_event<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    let head = lock(&mut transaction).await?;
    ensure_same!(head.stream, STREAM, "the stream");
    ensure_same!((head.last, head.horizon), (Position(0), Position(0)), "a new head");
    let other = transaction.lock_stream_head(&NOBODYS).await?;
    ensure_same!(other, None, "the head of a stream that nobody made");
    transaction.commit().await?;
    let rows = read(&scene, &feed(Position(0), 9)).await?;
    ensure_same!(rows, FeedRows { head: Some(head), events: Vec::new() }, "an empty feed");
    Ok(())
}

async fn a_head_moves_forward_only<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let moves = [((5, 0), 1), ((5, 2), 1), ((4, 3), 0), ((6, 1), 0), ((5, 2), 1), ((9, 4), 1)];
    for ((last, horizon), moved) in moves {
        let mut transaction = scene.begin().await?;
        let before = lock(&mut transaction).await?;
        let row = StreamHead { last: Position(last), horizon: Position(horizon), ..before };
        let seen = transaction.write_stream_head(&row).await?;
        ensure_same!(seen, moved, "heads moved from {before:?} to {row:?}");
        let expected = if moved == 1 { row } else { before };
        ensure_same!(lock(&mut transaction).await?, expected, "the head afterwards");
        transaction.commit().await?;
        let rows = read(&scene, &feed(Position(0), 1)).await?;
        ensure_same!(rows.head, Some(expected), "the head of the feed");
    }
    let mut transaction = scene.begin().await?;
    let nobodys = StreamHead { stream: NOBODYS, ..lock(&mut transaction).await? };
    ensure_same!(transaction.write_stream_head(&nobodys).await?, 0, "heads of no stream");
    Ok(())
}

async fn a_locked_head_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    for commits in [true, false] {
        let mut holder = scene.begin().await?;
        let before = lock(&mut holder).await?;
        let moved = StreamHead { last: Position(before.last.0 + 7), ..before };
        holder.write_stream_head(&moved).await?;
        let second = scene.second(async |one| one.lock_stream_head(&STREAM).await);
        let mut second = second.await?;
        scene.waits(&mut second, &mut holder).await?;
        let expected = match commits {
            true => {
                holder.commit().await?;
                moved
            }
            false => {
                holder.rollback().await;
                before
            }
        };
        let (transaction, head) = second.await?;
        ensure_same!(head, Some(expected), "the head after the wait");
        transaction.rollback().await;
    }
    Ok(())
}

async fn events_get_their_places_in_the_order_of_their_numbers<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    ended(&scene, 4).await?;
    sequence(&scene).await?;
    let again = NewEvent { incarnation: 1, ..event(4) };
    insert(&scene, &[again]).await?;
    sequence(&scene).await?;
    let rows = read(&scene, &feed(Position(0), 99)).await?;
    ensure_same!(numbers(&executions(&rows)), [4, 3, 2, 1, 4], "events by their places");
    let positions: Vec<u64> = rows.events.iter().map(|row| row.position.0).collect();
    ensure_same!(positions, [1, 2, 3, 4, 5], "places");
    ensure_same!(rows.head.map(|head| head.last), Some(Position(5)), "the head");
    Ok(())
}

async fn an_event_that_has_its_place_keeps_it<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene, 2).await?;
    let mut transaction = scene.begin().await?;
    let events = transaction.lock_unnumbered_events(&all()).await?;
    let rows = places(&events, Position(0));
    let written = transaction.write_positions(&rows).await?;
    ensure_same!(written, events.len() as u64, "events that got a place");
    let elsewhere = places(&events, Position(40));
    ensure_same!(transaction.write_positions(&elsewhere).await?, 0, "places given twice");
    ensure_same!(transaction.lock_unnumbered_events(&all()).await?, [], "events without a place");
    transaction.commit().await?;
    let feed = read(&scene, &feed(Position(0), 99)).await?;
    let positions: Vec<u64> = feed.events.iter().map(|row| row.position.0).collect();
    ensure_same!(positions, [1, 2], "places");
    Ok(())
}

async fn events_without_a_place_come_up_to_the_limit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene, 5).await?;
    let mut found = Vec::new();
    for limit in [0, 2, 2, 2, 2] {
        let mut transaction = scene.begin().await?;
        let query = UnnumberedQuery { limit, ..all() };
        let events = transaction.lock_unnumbered_events(&query).await?;
        ensure!(events.len() <= limit as usize, "{} events of {limit}", events.len());
        ensure!(events.is_sorted_by_key(|event| event.id), "events out of order: {events:?}");
        transaction.rollback().await;
        let mut transaction = scene.begin().await?;
        number(&mut transaction, &query).await?;
        transaction.commit().await?;
        found.extend(events.iter().map(|event| event.key.execution));
    }
    // A storage that numbers events as it inserts them has none without a place.
    let expected: &[u128] = if found.is_empty() { &[] } else { &[5, 4, 3, 2, 1] };
    ensure_same!(numbers(&found), expected, "events without a place");
    let rows = read(&scene, &feed(Position(0), 99)).await?;
    ensure_same!(numbers(&executions(&rows)), [5, 4, 3, 2, 1], "events by their places");
    Ok(())
}

async fn events_without_a_place_are_of_their_partitions<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let near = member(1, SUCCEEDED);
    let far = [3, 9].map(|partition| in_partition(partition, member(2, SUCCEEDED)));
    scene.seed(&Seed::members([near].into_iter().chain(far))).await?;
    let of = |partition| NewEvent { execution: id_in(partition, 2), ..event(2) };
    insert(&scene, &[event(1), of(3), of(9)]).await?;
    let mut transaction = scene.begin().await?;
    let everything = transaction.lock_unnumbered_events(&all()).await?;
    for partitions in [0..7, 7..8, 7..9, 8..u16::MAX, 3..3] {
        let query = UnnumberedQuery { partitions: partitions.clone(), ..all() };
        let found = transaction.lock_unnumbered_events(&query).await?;
        let mut expected = everything.clone();
        expected.retain(|event| partitions.contains(&event.key.execution.partition.0));
        ensure_same!(found, expected, "events of partitions {partitions:?}");
    }
    ensure!([0, 3].contains(&everything.len()), "{} events of 3", everything.len());
    Ok(())
}

async fn an_event_that_got_its_place_meanwhile_is_left_out<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    ended(&scene, 3).await?;
    let mut holder = scene.begin().await?;
    let two = UnnumberedQuery { limit: 2, ..all() };
    ensure_same!(number(&mut holder, &two).await?, 2, "events that got a place");
    let query = all();
    let second = scene.second(async |one| one.lock_unnumbered_events(&query).await);
    let mut second = second.await?;
    scene.waits(&mut second, &mut holder).await?;
    holder.commit().await?;
    let (transaction, found) = second.await?;
    let found: Vec<ExecutionId> = found.iter().map(|event| event.key.execution).collect();
    ensure_same!(numbers(&found), [1], "events without a place after the wait");
    transaction.rollback().await;
    Ok(())
}

async fn an_event_without_a_place_is_not_in_the_feed<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene, 2).await?;
    let mut transaction = scene.begin().await?;
    let unnumbered = transaction.lock_unnumbered_events(&all()).await?.len();
    transaction.rollback().await;
    let before = read(&scene, &feed(Position(0), 99)).await?;
    ensure_same!(before.events.len() + unnumbered, 2, "events in the feed and without a place");
    sequence(&scene).await?;
    let after = read(&scene, &feed(Position(0), 99)).await?;
    ensure_same!(after.events.len(), 2, "events in the feed");
    Ok(())
}

async fn an_event_of_the_feed_is_the_one_that_was_inserted<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    ended(&scene, 3).await?;
    sequence(&scene).await?;
    let rows = read(&scene, &feed(Position(0), 99)).await?;
    ensure_same!(rows.events.len(), 3, "events");
    let mut reader = scene.reader().await?;
    for row in rows.events {
        let event = reader.read_event(&row.event.id).await?;
        ensure_same!(event, Some(row.event), "the event by its number");
    }
    Ok(())
}

async fn the_feed_comes_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene, 5).await?;
    sequence(&scene).await?;
    let mut after = Position(0);
    for expected in [&[5, 4][..], &[3, 2], &[1], &[]] {
        let rows = read(&scene, &feed(after, 2)).await?;
        ensure_same!(numbers(&executions(&rows)), expected, "a page behind {after:?}");
        ensure_same!(rows.head.map(|head| head.last), Some(Position(5)), "the head beside it");
        after = rows.events.last().map_or(after, |row| row.position);
    }
    let none = read(&scene, &feed(Position(0), 0)).await?;
    ensure!(none.head.is_some() && none.events.is_empty(), "a page of no event: {none:?}");
    let beyond = read(&scene, &feed(Position(u64::MAX), 9)).await?;
    ensure!(beyond.head.is_some() && beyond.events.is_empty(), "beyond: {beyond:?}");
    Ok(())
}

async fn the_feed_is_of_its_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut elsewhere = in_partition(3, member(2, SUCCEEDED));
    elsewhere.definition.namespace = "other".into();
    let mut untagged = member(3, SUCCEEDED);
    untagged.definition.instance_tag = None;
    scene.seed(&Seed::members([member(1, SUCCEEDED), elsewhere, untagged])).await?;
    let far = NewEvent { execution: id_in(3, 2), ..event(2) };
    for row in [far, event(3), event(1)] {
        insert(&scene, &[row]).await?;
    }
    sequence(&scene).await?;
    let everything = Scope::default;
    let tenant = |name: &str| Scope { namespace: Some(name.into()), ..everything() };
    let north = Scope { instance_tag: Some("region=north".into()), ..everything() };
    let checks = [
        (everything(), &[2, 3, 1][..]),
        (tenant("tenant"), &[3, 1]),
        (tenant("other"), &[2]),
        (tenant("nobody"), &[]),
        (north, &[2, 1]),
        (Scope { partitions: 0..7, ..everything() }, &[2]),
        (Scope { partitions: 4..8, ..everything() }, &[3, 1]),
    ];
    for (scope, expected) in checks {
        let limit = u32::try_from(expected.len()).expect("a case has few events");
        let query = FeedQuery { filter: scope.into(), ..feed(Position(0), limit.max(1)) };
        let rows = read(&scene, &query).await?;
        ensure_same!(numbers(&executions(&rows)), expected, "the feed of {:?}", query.filter);
    }
    Ok(())
}

/// An execution whose lease ended twice before it did, and another that ended.
async fn with_leases<S: Subject>(scene: &Scene<'_, S>) -> Result<Vec<EventKind>, Breach> {
    scene.seed(&Seed::members([member(1, SUCCEEDED), member(2, SUCCEEDED)])).await?;
    let told = [
        lease_event(1, 1, LeaseChange::Released),
        event(2),
        lease_event(1, 2, LeaseChange::Expired),
        event(1),
    ];
    for row in told {
        insert(scene, &[row]).await?;
    }
    Ok(told.iter().map(|row| row.kind).collect())
}

async fn the_feed_is_of_the_kinds_that_are_wanted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let told = with_leases(&scene).await?;
    sequence(&scene).await?;
    for wanted in Wanted::ALL {
        let expected = told.iter().copied().filter(|kind| wanted.includes(kind));
        let expected: Vec<EventKind> = expected.collect();
        let limit = u32::try_from(expected.len()).expect("a case has few events");
        let filter = FeedFilter { wanted, ..FeedFilter::default() };
        let rows = read(&scene, &FeedQuery { filter, ..feed(Position(0), limit) }).await?;
        let found: Vec<EventKind> = rows.events.iter().map(|row| row.event.event.kind).collect();
        ensure_same!(found, expected, "the feed of {wanted:?}");
    }
    Ok(())
}

async fn events_of_one_incarnation_get_places_of_their_own<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let told = with_leases(&scene).await?;
    let mut transaction = scene.begin().await?;
    let events = transaction.lock_unnumbered_events(&all()).await?;
    let rows = places(&events, Position(0));
    for row in &rows {
        ensure_same!(transaction.write_positions(&[*row]).await?, 1, "places given for {row:?}");
    }
    transaction.commit().await?;
    let filter = FeedFilter { wanted: Wanted::Everything, ..FeedFilter::default() };
    let rows = read(&scene, &FeedQuery { filter, ..feed(Position(0), 9) }).await?;
    let found: Vec<(u64, EventKind)> =
        rows.events.iter().map(|row| (row.position.0, row.event.event.kind)).collect();
    let expected: Vec<(u64, EventKind)> = (1..).zip(told).collect();
    ensure_same!(found, expected, "events by their places");
    Ok(())
}

async fn a_stream_that_nobody_made_has_no_head<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene, 1).await?;
    sequence(&scene).await?;
    let query = FeedQuery { stream: NOBODYS, ..feed(Position(0), 9) };
    let rows = read(&scene, &query).await?;
    ensure_same!(rows, FeedRows { head: None, events: Vec::new() }, "the feed of no stream");
    Ok(())
}

fn cursor(name: &str, position: u64) -> Subscription {
    Subscription {
        name: ConsumerName(name.into()),
        timeline: Timeline(Uuid::from_u128(7)),
        position: Position(position),
    }
}

async fn stored<S: Subject>(
    scene: &Scene<'_, S>,
    name: &str,
) -> Result<Option<Subscription>, Breach> {
    Ok(scene.reader().await?.read_subscription(&ConsumerName(name.into())).await?)
}

async fn a_cursor_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [cursor("billing", 0), cursor("Büro 'x' \u{1F680}", 1 << 40), cursor("a b", 3)];
    for row in &rows {
        let inserted = scene.commit(async |one| one.insert_subscription(row).await).await?;
        ensure_same!(inserted, Inserted::New, "a cursor that is new");
    }
    for row in rows {
        let locked = scene.commit(async |one| one.lock_subscription(&row.name).await).await?;
        ensure_same!(locked.as_ref(), Some(&row), "a locked cursor");
        ensure_same!(stored(&scene, &row.name.0).await?, Some(row), "a cursor");
    }
    ensure_same!(stored(&scene, "bill").await?, None, "the cursor of nobody");
    let nobody = ConsumerName("bill".into());
    let locked = scene.commit(async |one| one.lock_subscription(&nobody).await).await?;
    ensure_same!(locked, None, "the locked cursor of nobody");
    Ok(())
}

async fn a_cursor_that_exists_stays_as_it_is<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.commit(async |one| one.insert_subscription(&cursor("x", 4)).await).await?;
    let again = scene.commit(async |one| one.insert_subscription(&cursor("x", 9)).await).await?;
    ensure_same!(again, Inserted::Exists, "a cursor that is there");
    ensure_same!(stored(&scene, "x").await?, Some(cursor("x", 4)), "the cursor");
    Ok(())
}

async fn a_cursor_in_flight_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    for (name, commits) in [("x", true), ("y", false)] {
        let mut holder = scene.begin().await?;
        holder.insert_subscription(&cursor(name, 1)).await?;
        let row = cursor(name, 2);
        let mut second = scene.second(async |one| one.insert_subscription(&row).await).await?;
        scene.waits(&mut second, &mut holder).await?;
        let expected = match commits {
            true => {
                holder.commit().await?;
                Inserted::Exists
            }
            false => {
                holder.rollback().await;
                Inserted::New
            }
        };
        let (transaction, inserted) = second.await?;
        ensure_same!(inserted, expected, "what came of `{name}`");
        transaction.commit().await?;
    }
    Ok(())
}

async fn moved<S: Subject>(scene: &Scene<'_, S>, row: &Subscription) -> Result<u64, Breach> {
    scene
        .commit(async |one| {
            one.lock_subscription(&row.name).await?;
            one.write_subscription(row).await
        })
        .await
}

async fn a_cursor_moves_forward_only<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    for name in ["x", "y"] {
        scene.commit(async |one| one.insert_subscription(&cursor(name, 4)).await).await?;
    }
    for (position, expected) in [(3, 0), (4, 0), (5, 1), (4, 0), (9, 1)] {
        let row = cursor("x", position);
        ensure_same!(moved(&scene, &row).await?, expected, "cursors moved to {position}");
    }
    ensure_same!(stored(&scene, "x").await?, Some(cursor("x", 9)), "the cursor");
    ensure_same!(stored(&scene, "y").await?, Some(cursor("y", 4)), "another cursor");
    ensure_same!(moved(&scene, &cursor("nobody", 9)).await?, 0, "cursors of nobody");
    Ok(())
}

async fn a_cursor_of_another_timeline_stays<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.commit(async |one| one.insert_subscription(&cursor("x", 4)).await).await?;
    let other = Subscription { timeline: Timeline(Uuid::from_u128(8)), ..cursor("x", 9) };
    ensure_same!(moved(&scene, &other).await?, 0, "cursors moved to another timeline");
    ensure_same!(stored(&scene, "x").await?, Some(cursor("x", 4)), "the cursor");
    Ok(())
}

async fn a_locked_cursor_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    scene.commit(async |one| one.insert_subscription(&cursor("x", 4)).await).await?;
    let mut holder: Tx<S> = scene.begin().await?;
    holder.lock_subscription(&cursor("x", 0).name).await?;
    holder.write_subscription(&cursor("x", 6)).await?;
    let name = cursor("x", 0).name;
    let mut second = scene.second(async |one| one.lock_subscription(&name).await).await?;
    scene.waits(&mut second, &mut holder).await?;
    holder.commit().await?;
    let (transaction, locked) = second.await?;
    ensure_same!(locked, Some(cursor("x", 6)), "the cursor after the wait");
    transaction.rollback().await;
    Ok(())
}
