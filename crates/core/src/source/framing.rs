//! How a byte stream is cut into packets: the length of a frame stands in its first bytes.
//!
//! A decoder declares the rule of its format ([`crate::detector::Detector::framing`]), or a key of the URL names one of
//! [`FrameRule::PREFIXES`]. A length is bounded before anything is allocated for it. Source: `docs/fragments.md`, "Framing".

/// A length that cannot be right: the rest of the stream has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The first bytes are not those of a frame.
    #[error("no frame begins here")]
    Start,
    /// The frame would be longer than allowed.
    #[error("a frame is longer than allowed")]
    Long,
}

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct FrameRule {
    /// For people, and as the value of a key.
    pub name: &'static str,
    /// Bytes that tell the length; at most [`FrameRule::MOST_HEAD`].
    pub head: usize,
    /// Of these bytes the length of the whole frame, them included; `None`: no frame begins so.
    pub length: fn(&[u8]) -> Option<usize>,
    /// Bytes in front that are not handed on.
    pub skip: usize,
    /// Longest frame that the format has, bytes; `None`: the reader's limit alone.
    pub most: Option<usize>,
}

fn plus(head: usize, payload: u64) -> Option<usize> {
    Some(head.saturating_add(usize::try_from(payload).unwrap_or(usize::MAX)))
}

impl FrameRule {
    /// Longest head of a rule.
    pub const MOST_HEAD: usize = 64;

    /// Rules for formats that say nothing of themselves: a whole number, then so many bytes, which are handed on.
    pub const PREFIXES: [FrameRule; 4] = [
        FrameRule {
            name: "u16be",
            head: 2,
            length: |b| plus(2, u16::from_be_bytes(*b.first_chunk()?).into()),
            skip: 2,
            most: None,
        },
        FrameRule {
            name: "u16le",
            head: 2,
            length: |b| plus(2, u16::from_le_bytes(*b.first_chunk()?).into()),
            skip: 2,
            most: None,
        },
        FrameRule {
            name: "u32be",
            head: 4,
            length: |b| plus(4, u32::from_be_bytes(*b.first_chunk()?).into()),
            skip: 4,
            most: None,
        },
        FrameRule {
            name: "u32le",
            head: 4,
            length: |b| plus(4, u32::from_le_bytes(*b.first_chunk()?).into()),
            skip: 4,
            most: None,
        },
    ];

    /// The prefix of this name.
    pub fn prefix(name: &str) -> Option<FrameRule> {
        FrameRule::PREFIXES.into_iter().find(|rule| rule.name == name)
    }

    /// Length of the frame that `bytes` begin with, head included; `None`: too few bytes to tell. At least 1.
    ///
    /// # Errors
    /// No frame begins so, or it is longer than `most` bytes or than the format allows.
    #[inline]
    pub fn whole(&self, bytes: &[u8], most: usize) -> Result<Option<usize>, FrameFault> {
        let Some(head) = bytes.get(..self.head) else { return Ok(None) };
        let len = (self.length)(head).filter(|&len| len >= self.head.max(self.skip).max(1));
        let len = len.ok_or(FrameFault::Start)?;
        if len > self.most.unwrap_or(usize::MAX).min(most) {
            return Err(FrameFault::Long);
        }
        Ok(Some(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_tells_the_length_and_a_long_one_is_refused() {
        let rule = FrameRule::prefix("u32be").unwrap();
        assert_eq!(rule.whole(&[0, 0, 0], 100), Ok(None));
        assert_eq!(rule.whole(&[0, 0, 0, 5, 9], 100), Ok(Some(9)));
        assert_eq!(rule.whole(&[0, 0, 0, 0], 100), Ok(Some(4)));
        assert_eq!(rule.whole(&[0xff; 4], 1 << 30), Err(FrameFault::Long));
        let rule = FrameRule::prefix("u16le").unwrap();
        assert_eq!(rule.whole(&[5, 0], 7), Ok(Some(7)));
        assert_eq!(rule.whole(&[6, 0], 7), Err(FrameFault::Long));
        assert!(FrameRule::prefix("ferol").is_none());
    }

    #[test]
    fn a_rule_of_a_format_can_refuse_the_start() {
        let length = |b: &[u8]| (b[0] == b'G').then_some(0);
        let rule = FrameRule { name: "g", head: 1, length, skip: 0, most: Some(3) };
        assert_eq!(rule.whole(b"Ga", 9), Err(FrameFault::Start));
        assert_eq!(rule.whole(b"x", 9), Err(FrameFault::Start));
    }
}
