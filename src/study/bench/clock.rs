//! Time by the clock on the wall and by what the processor spent on this process.
//!
//! On a machine that others use too, a method waits for its turn, and the wall says how busy
//! they were. The processor's time does not count that, and counts all threads.

use std::time::Instant;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Instant,
    cpu: Option<f64>,
}

/// Seconds since a moment.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed {
    /// By the wall.
    pub wall: f64,
    /// Of processors, summed over all threads; none where the system does not tell.
    pub cpu: Option<f64>,
}

impl Clock {
    /// This moment.
    pub fn start() -> Clock {
        Clock { cpu: cpu_seconds(), wall: Instant::now() }
    }

    /// The time since.
    pub fn elapsed(self) -> Elapsed {
        let wall = self.wall.elapsed().as_secs_f64();
        let cpu = self.cpu.zip(cpu_seconds()).map(|(from, to)| to - from);
        Elapsed { wall, cpu }
    }
}

#[cfg(unix)]
fn cpu_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

#[cfg(not(unix))]
fn cpu_seconds() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn work_takes_processor_time_and_sleep_does_not() {
        let clock = Clock::start();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = clock.elapsed();
        assert!(slept.wall >= 0.05);
        let clock = Clock::start();
        let mut x = 1u64;
        while clock.elapsed().cpu.unwrap() < 0.01 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let worked = clock.elapsed();
        assert!(worked.cpu.unwrap() >= 0.01 && worked.wall > 0.0);
    }
}
