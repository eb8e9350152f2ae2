//! A record is read back as it was written, and no other bytes count as one.

use proptest::collection::vec;
use proptest::prelude::*;

use super::folder::Key;
use super::record::{Head, Identity, Outgoing, Slot, Version, fields, lay_front, size, verify};

const SPOOL: [u8; 16] = *b"0123456789abcdef";
const KEY: Key = Key { spool: SPOOL, salt: *b"saltsalt" };
const TWO: Version = Version::Two;

proptest! {
    #[test]
    fn reading_inverts_laying_down_and_a_flipped_bit_is_noticed(
        key in proptest::option::of(vec(any::<u8>(), 0..20)),
        headers in vec(("[a-z.µ]{0,9}", vec(any::<u8>(), 0..40)), 0..4),
        payload in vec(any::<u8>(), 0..300),
        (sequence, message_id, events, time_ms) in any::<(u64, u64, u32, i64)>(),
        (start, before, place) in (any::<u64>(), any::<u64>(), any::<u64>()),
        flip in any::<prop::sample::Index>(),
    ) {
        let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_slice())).collect();
        let message = Outgoing { key: key.as_deref(), headers: &headers, payload: &payload, message_id, events };
        let mut bytes = vec![9; 5];
        let slot = Slot { place, sequence, start, before, time_ms };
        lay_front(&mut bytes, &KEY, slot, &message);
        bytes.extend(&payload);
        let n = bytes.len();
        prop_assert_eq!(n, size(&message));
        let behind = [bytes.as_slice(), b"FCR2 what comes next"].concat();
        let head = verify(TWO, &KEY, place, &behind).ok_or_else(|| TestCaseError::fail("not verified"))?;
        let stored = fields(&behind, head, SPOOL, !start).ok_or_else(|| TestCaseError::fail("no fields"))?;
        prop_assert_eq!(stored.identity, Identity { spool: SPOOL, start, sequence });
        prop_assert_eq!(head.upto(), Some(before.saturating_add(events.into())));
        prop_assert_eq!((stored.time_ms, stored.message_id, stored.events), (time_ms, message_id, events));
        prop_assert_eq!((stored.key, stored.payload), (message.key, message.payload));
        prop_assert_eq!(stored.headers().collect::<Vec<_>>(), headers);
        prop_assert_eq!(stored.bytes, n);
        let at = flip.index(8 * n);
        bytes[at / 8] ^= 1 << (at % 8);
        prop_assert_eq!(verify(TWO, &KEY, place, &bytes), None);
        prop_assert_eq!(verify(TWO, &KEY, place, &bytes[..n - 1]), None);
        bytes[at / 8] ^= 1 << (at % 8);
        // The same bytes elsewhere, or of another spool, are no record.
        prop_assert_eq!(verify(TWO, &KEY, place ^ 1, &bytes), None);
        prop_assert_eq!(verify(TWO, &Key { salt: *b"sbltsalt", ..KEY }, place, &bytes), None);
    }

    #[test]
    fn no_bytes_make_a_panic(bytes in vec(any::<u8>(), 0..80), body in 0u32..80) {
        for version in [Version::One, TWO] {
            let mut record = version.magic().to_vec();
            record.extend(body.to_le_bytes());
            record.extend(&bytes);
            if let Some(head) = Head::read(version, &KEY, 0, &record) {
                let _ = fields(&record, head, SPOOL, 0);
            }
            let _ = verify(version, &KEY, 0, &record);
        }
    }

    #[test]
    fn an_identity_is_read_back(spool in any::<[u8; 16]>(), start in any::<u64>(), sequence in any::<u64>()) {
        let identity = Identity { spool, start, sequence };
        let bytes = identity.to_bytes();
        prop_assert_eq!(Identity::from_bytes(&bytes), Some(identity));
        prop_assert_eq!(Identity::from_bytes(&bytes[1..]), None);
    }
}
