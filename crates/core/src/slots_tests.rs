//! Places compared with a slow and simple model of the longest silence.

use super::*;
use proptest::prelude::*;

#[test]
fn the_one_that_was_silent_longest_goes() {
    let mut s = Slots::new(3);
    assert_eq!([1, 2, 3].map(|k| s.find(k)), [Found::New(0), Found::New(1), Found::New(2)]);
    for k in [1, 2, 3, 1] {
        assert!(matches!(s.find(k), Found::Known(_)));
    }
    // 2 was silent longest.
    assert_eq!(s.find(4), Found::Reused(1));
    assert_eq!((s.key(1), s.is_followed(1), s.is_followed(0), s.len()), (4, false, true, 3));
    // 4 came once only: it goes before 3, which was silent longer.
    assert_eq!(s.find(5), Found::Reused(1));
    assert_eq!(s.find(3), Found::Known(2));
    assert_eq!(s.find(2), Found::Reused(1), "5 goes, and 2 begins again");
}

#[test]
fn strangers_who_come_once_each_leave_all_others_their_places() {
    let mut s = Slots::new(4096);
    let real: Vec<u64> = (0..3000).collect();
    for _ in 0..2 {
        real.iter().for_each(|&k| _ = s.find(k));
    }
    (1 << 32..(1 << 32) + 1_000_000).for_each(|k| _ = s.find(k));
    for &k in &real {
        assert_eq!(s.find(k), Found::Known(k as usize));
    }
    // New senders get places as well, although forged ones continue: they are followed from their second packet on.
    for k in 10_000..10_100u64 {
        assert!(matches!(s.find(k), Found::Reused(_)));
        (0..500).for_each(|n| _ = s.find(1 << 40 | k << 16 | n));
        assert!(matches!(s.find(k), Found::Known(_)), "{k}");
    }
    // All places followed: streams with one packet take an eighth of them, never more.
    (100_000..104_096u64).for_each(|k| _ = (s.find(k), s.find(k)));
    (1 << 50..(1 << 50) + 100_000u64).for_each(|k| _ = s.find(k));
    let kept = (100_000..104_096u64).filter(|k| s.places.contains_key(k)).count();
    assert_eq!(kept, 4096 - 512);
}

#[test]
fn one_place_serves_one_at_a_time() {
    let mut s = Slots::new(0);
    let all = [7, 7, 8, 7].map(|k| s.find(k));
    assert_eq!(all, [Found::New(0), Found::Known(0), Found::Reused(0), Found::Reused(0)]);
}

proptest! {
    #[test]
    fn places_are_those_of_the_simple_account(limit in 1usize..20, keys in proptest::collection::vec(0u32..40, 0..400)) {
        let mut s = Slots::new(limit);
        // Key and whether it came again, oldest first.
        let mut model: Vec<(u32, bool)> = Vec::new();
        for key in keys {
            let found = s.find(key);
            match model.iter().position(|(k, _)| *k == key) {
                Some(at) => {
                    prop_assert!(matches!(found, Found::Known(_)));
                    model.remove(at);
                    model.push((key, true));
                }
                None if model.len() < limit => {
                    prop_assert_eq!(found, Found::New(model.len()));
                    model.push((key, false));
                }
                None => {
                    let once = model.iter().filter(|(_, again)| !again).count();
                    let goes = once == limit || once >= (limit / 8).max(1);
                    let at = model.iter().position(|(_, again)| *again != goes).unwrap();
                    model.remove(at);
                    prop_assert!(matches!(found, Found::Reused(_)));
                    model.push((key, false));
                }
            }
            prop_assert_eq!(s.key(found.place()), key);
            prop_assert_eq!(s.len(), model.len());
            let followed = |k| s.places.get(k).map(|&at| s.slots[at as usize].followed);
            prop_assert!(model.iter().all(|(k, again)| followed(k) == Some(*again)));
        }
    }
}
