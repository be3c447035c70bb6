// rusty SECONDS: burns in a generic method of a trait implementation, so that its name needs the Rust demangler.
// Truth: {"function": contains "rusty::" and "churn"}; the name must carry no hash and no `$LT$` or `_R` escapes.
use std::time::{Duration, Instant};

struct Wheel(u64);

/// Nothing the optimizer may reason about (std::hint::black_box came with 1.66, Debian 12 has 1.63).
#[inline(always)]
fn opaque(x: u64) -> u64 {
    unsafe { std::ptr::read_volatile(&x) }
}

trait Churn<T> {
    fn churn(&mut self, rounds: T) -> u64;
}

impl Churn<u32> for Wheel {
    #[inline(never)]
    fn churn(&mut self, rounds: u32) -> u64 {
        for _ in 0..rounds {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 = opaque(self.0 ^ (self.0 << 17));
        }
        self.0
    }
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut wheel = Wheel(1);
    while Instant::now() < end {
        opaque(wheel.churn(400_000));
    }
    println!("{{\"function\": \"churn\", \"x\": {}}}", wheel.0 & 1);
}
