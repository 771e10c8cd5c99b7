//! Hanging a tag on a flow. The labels that filters read are fixed at submit; a tag never moves
//! anything.

use std::sync::Arc;

use crate::error::EngineError;
use crate::identity::{FlowKey, RequestId};
use crate::mutants::mutated;
use crate::operations::call::{Call, Opened};
use crate::storage::{Flow, Result, Transaction};
use crate::transact::{Body, Run, Verdict};

/// Bytes of the name or of the value of a tag, at most.
pub const TAG_BYTES_MAX: usize = 256;
/// Tags of one flow, at most.
pub const TAGS_MAX: usize = 64;

/// True for a dotted name: `^[a-z][a-z0-9_]*\.[a-z0-9_][a-z0-9_.]*$`.
fn is_dotted(tag: &str) -> bool {
    let word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let Some((space, rest)) = tag.split_once('.') else { return false };
    let begins = |text: &str, with: fn(&u8) -> bool| text.as_bytes().first().is_some_and(with);
    begins(space, u8::is_ascii_lowercase)
        && space.bytes().all(word)
        && begins(rest, |byte| *byte != b'.')
        && rest.bytes().all(|byte| word(byte) || byte == b'.')
}

/// Refuses a name that no tag has.
pub(crate) fn check_name(tag: &str) -> Result<(), EngineError> {
    if tag.len() > TAG_BYTES_MAX {
        let length = tag.len();
        let reason = format!("the name of a tag has {length} bytes, of {TAG_BYTES_MAX} at most");
        return Err(EngineError::LimitExceeded(reason));
    }
    match is_dotted(tag) {
        true => Ok(()),
        false => Err(EngineError::Invalid(format!(
            "tag `{tag}` is not a dotted name in lower case, such as `billing.team`"
        ))),
    }
}

/// The transaction that hangs a tag on a flow.
pub(crate) struct SetTag {
    pub(crate) flow: FlowKey,
    pub(crate) tag: Arc<str>,
    pub(crate) value: Arc<str>,
    pub(crate) request: RequestId,
}

impl SetTag {
    /// The transaction, if name and value may be.
    pub(crate) fn of(
        flow: FlowKey,
        tag: &str,
        value: &str,
        request: RequestId,
    ) -> Result<Self, EngineError> {
        check_name(tag)?;
        if value.len() > TAG_BYTES_MAX {
            let length = value.len();
            return Err(EngineError::LimitExceeded(format!(
                "the value of tag `{tag}` has {length} bytes, of {TAG_BYTES_MAX} at most"
            )));
        }
        if value.contains('\0') {
            let reason = format!("the value of tag `{tag}` has a zero byte");
            return Err(EngineError::Invalid(reason));
        }
        Ok(Self { flow, tag: tag.into(), value: value.into(), request })
    }
}

impl Body for SetTag {
    type Out = Result<(), EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let call = Call::new(self.flow, self.request, &["set_flow_tag", &self.tag, &self.value]);
        let flow = match call.open(transaction).await? {
            Ok(Opened::New(flow)) => flow,
            Ok(Opened::Known(_, _)) => return Ok(Verdict::Rollback(Ok(()))),
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        };
        if flow.tags.get(&self.tag).is_none() && flow.tags.len() >= TAGS_MAX {
            let reason = format!("flow {} has {TAGS_MAX} tags", self.flow.id);
            return Ok(Verdict::Rollback(Err(EngineError::LimitExceeded(reason))));
        }
        let flow = Flow { tags: flow.tags.with(&self.tag, &self.value), ..flow };
        let written = transaction.write_flow(&flow).await?;
        assert!(written == 1, "a locked flow vanished");
        if mutated!(S20) {
            return Ok(Verdict::Commit(Ok(())));
        }
        call.keep(transaction, Arc::from([])).await?;
        Ok(Verdict::Commit(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_dotted_and_in_lower_case() {
        let at_most = format!("a.{}", "b".repeat(TAG_BYTES_MAX - 2));
        for tag in ["a.b", "a_1.2", "billing.team.x", "a._", "a.b.", "a.b..c", &at_most] {
            assert_eq!(check_name(tag), Ok(()), "{tag}");
        }
        for tag in ["", "a", "a.", ".a", "1.a", "_a.b", "A.b", "a.B", "a b.c", "a..b", "a.b\n"] {
            assert!(matches!(check_name(tag), Err(EngineError::Invalid(_))), "{tag}");
        }
        let over = check_name(&format!("{at_most}b"));
        assert!(matches!(over, Err(EngineError::LimitExceeded(_))), "{over:?}");
    }
}
