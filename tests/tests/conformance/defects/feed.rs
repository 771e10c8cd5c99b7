//! Feeds that are wrong in one way each.

use sluicegate::storage::{
    EventKind, EventPosition, FeedQuery, FeedRows, NewEvent, Position, StreamHead, StreamId,
    Subscription, Timeline, UnnumberedQuery, Verb, Wanted,
};

use super::{change, of_arguments, of_reply, rejects};
use crate::tampering::Tamper;

#[tokio::test]
async fn feeds_that_are_wrong_are_rejected() {
    let arguments: [(&str, Tamper); 12] = [
        ("the_feed_comes_in_pages", |_, query| {
            change::<FeedQuery>(query, |query| query.limit = 99);
        }),
        ("the_feed_comes_in_pages", |_, query| {
            change::<FeedQuery>(query, |query| query.after.0 = 0);
        }),
        ("the_feed_is_of_its_scope", |_, query| {
            change::<FeedQuery>(query, |query| query.filter.scope.namespace = None);
        }),
        ("the_feed_is_of_its_scope", |_, query| {
            change::<FeedQuery>(query, |query| query.filter.scope.instance_tag = None);
        }),
        ("the_feed_is_of_its_scope", |_, query| {
            change::<FeedQuery>(query, |query| query.filter.scope.partitions.start = 0);
        }),
        ("the_feed_is_of_the_kinds_that_are_wanted", |_, query| {
            change::<FeedQuery>(query, |query| query.filter.wanted = Wanted::Everything);
        }),
        ("every_change_of_a_lease_reads_back", |_, rows| {
            change::<Vec<NewEvent>>(rows, |rows| {
                for row in rows.iter_mut() {
                    if let EventKind::Lease(lease) = &mut row.kind {
                        lease.expires_at.0 = lease.expires_at.0.max(0);
                    }
                }
            });
        }),
        ("events_of_one_incarnation_get_places_of_their_own", |verb, rows| {
            if verb == Verb::WritePositions {
                change::<Vec<EventPosition>>(rows, |rows| {
                    for row in rows.iter_mut() {
                        row.key.lease = None;
                    }
                });
            }
        }),
        ("events_without_a_place_come_up_to_the_limit", |_, query| {
            change::<UnnumberedQuery>(query, |query| query.limit += 1);
        }),
        ("events_without_a_place_are_of_their_partitions", |_, query| {
            change::<UnnumberedQuery>(query, |query| query.partitions.start = 0);
        }),
        ("a_head_moves_forward_only", |_, row| {
            change::<StreamHead>(row, |row| row.horizon.0 = 0);
        }),
        ("a_cursor_moves_forward_only", |_, row| {
            change::<Subscription>(row, |row| row.position.0 += 1);
        }),
    ];
    for (case, arguments) in arguments {
        rejects(case, of_arguments(arguments)).await;
    }
    let replies: [(&str, Tamper); 3] = [
        ("events_get_their_places_in_the_order_of_their_numbers", |_, rows| {
            change::<FeedRows>(rows, |rows| rows.events.reverse());
        }),
        ("a_stream_that_nobody_made_has_no_head", |verb, rows| {
            if verb == Verb::ReadFeed {
                change::<FeedRows>(rows, |rows| {
                    let (stream, timeline) = (StreamId::EVENTS, Timeline::default());
                    let (last, horizon) = (Position(0), Position(0));
                    rows.head = rows.head.or(Some(StreamHead { stream, timeline, last, horizon }));
                });
            }
        }),
        ("an_event_that_has_its_place_keeps_it", |verb, written| {
            if verb == Verb::WritePositions {
                change::<u64>(written, |written| *written = 2);
            }
        }),
    ];
    for (case, reply) in replies {
        rejects(case, of_reply(reply)).await;
    }
}
