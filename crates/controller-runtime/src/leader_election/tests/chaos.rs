//! Whatever the API server does, two never lead. (Deleting the Lease is what a person does.)

use fake_apiserver::{Reaction, Status};

use super::*;

/// A reproducible sequence (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn time(&mut self) -> Duration {
        Duration::from_millis(self.below(20_000))
    }
}

fn trouble(dice: &mut Dice, server: &FakeApiServer) {
    let verb = ["get", "update", "update", "create", "watch"][usize::try_from(dice.below(5)).unwrap()];
    let reaction = match dice.below(7) {
        0 => Reaction::Refuse(Status::internal_error("etcd")),
        1 => Reaction::Delay(dice.time()),
        2 => Reaction::DelayAnswer(dice.time()),
        3 => Reaction::Hang,
        4 => Reaction::HangAfterWrite,
        5 => Reaction::LoseAnswer,
        _ => Reaction::BreakConnection,
    };
    let times = usize::try_from(1 + dice.below(6)).unwrap();
    server.react(Matcher::of(verb, "leases").times(times), reaction);
    match dice.below(12) {
        0 => server.drop_watches(),
        1 => server.break_watches(),
        2 => server.compact(),
        3 => server.clear_reactions(),
        4 if server.get::<Lease>(NAMESPACE, LEASE).is_some() => {
            let label = serde_json::json!({"metadata": {"labels": {"edit": dice.below(1000).to_string()}}});
            server.merge::<Lease>(NAMESPACE, LEASE, &label);
        }
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_one_leads_whatever_the_api_server_does() {
    let mut terms = 0;
    for seed in 1..=10 {
        let mut dice = Dice(seed);
        let server = FakeApiServer::new();
        let candidates: Vec<_> = (0..3).map(|_| Candidate::start(&server)).collect();
        for step in 0..6000 {
            if dice.below(40) == 0 {
                trouble(&mut dice, &server);
            }
            pass(0.1).await;
            let leaders = candidates.iter().filter(|candidate| candidate.leads()).count();
            assert!(leaders <= 1, "seed {seed}, step {step}: {leaders} leaders");
        }
        server.clear_reactions();
        pass(60.0).await;
        let leaders = candidates.iter().filter(|candidate| candidate.leads()).count();
        assert_eq!(leaders, 1, "seed {seed}: the election recovers");
        terms += candidates.iter().map(|candidate| candidate.gates.lock().len()).sum::<usize>();
    }
    assert!(terms > 20, "{terms} terms: the trouble is not enough to change leaders");
}
