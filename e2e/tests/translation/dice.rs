//! Random numbers that are the same in every run with the same seed.

/// splitmix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// Up to `most` of them, joined.
    pub(crate) fn joined(&mut self, most: usize, choices: &[&str], between: &str) -> String {
        let parts: Vec<_> = (0..self.below(most + 1)).map(|_| self.pick(choices)).collect();
        parts.join(between)
    }

    /// The text with letters in upper case here and there.
    pub(crate) fn shouted(&mut self, text: &str) -> String {
        if self.one_in(2) {
            return text.to_owned();
        }
        text.chars().map(|c| if self.one_in(3) { c.to_ascii_uppercase() } else { c }).collect()
    }
}
