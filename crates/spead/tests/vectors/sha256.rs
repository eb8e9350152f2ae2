//! SHA-256 (FIPS 180-4), for vectors that are given by their hash.

fn primes(n: usize) -> Vec<u64> {
    (2u64..).filter(|p| (2..*p).take_while(|d| d * d <= *p).all(|d| p % d != 0)).take(n).collect()
}

/// First 32 bits of the fraction of a root of `p`.
fn fraction(p: u64, root: u32) -> u32 {
    // The largest x with x^root <= p * 2^(32 * root).
    let (mut low, mut high) = (0u128, 1u128 << 40);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let fits = match root {
            2 => middle * middle <= u128::from(p) << 64,
            _ => middle * middle * middle <= u128::from(p) << 96,
        };
        if fits { low = middle } else { high = middle }
    }
    low as u32
}

/// Of `data`, in hexadecimal digits.
pub fn sha256(data: &[u8]) -> String {
    let primes = primes(64);
    let k: Vec<u32> = primes.iter().map(|p| fraction(*p, 3)).collect();
    let mut h: Vec<u32> = primes[..8].iter().map(|p| fraction(*p, 2)).collect();
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((data.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut w: Vec<u32> =
            block.chunks(4).map(|b| u32::from_be_bytes(b.try_into().unwrap())).collect();
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut v = h.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 =
                v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(t1);
            v[0] = t1.wrapping_add(s0.wrapping_add(majority));
        }
        h.iter_mut().zip(v).for_each(|(h, v)| *h = h.wrapping_add(v));
    }
    h.iter().map(|h| format!("{h:08x}")).collect()
}

#[test]
fn of_the_standards_example() {
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256(b"abc"), abc);
}
