//! Receiving in tasks of an async runtime: two channels, a time limit, and the end of a stream.

use olivine::{AsyncSubscriber, Publisher, ReceiveError, Subscriber};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(receive())
}

async fn receive() -> Result<(), Box<dyn Error>> {
    let mut orders = AsyncSubscriber::new(Subscriber::open("inproc://orders")?)?;
    let mut alarms = AsyncSubscriber::new(Subscriber::open("inproc://alarms")?)?;

    // Publishers of other threads, or of other processes with `shm://`.
    let publisher = std::thread::spawn(|| {
        let mut orders = Publisher::open("inproc://orders").expect("the channel exists");
        let mut alarms = Publisher::open("inproc://alarms").expect("the channel exists");
        for order in 1..=3_u8 {
            orders.publish(&[order]).expect("a subscriber reads");
        }
        alarms.publish(b"low on paper").expect("a subscriber reads");
    });

    let (mut order_count, mut is_over) = (0, false);
    while !is_over {
        // The branch that is not taken has received nothing.
        tokio::select! {
            order = orders.receive() => match order {
                Ok(order) => {
                    order_count += 1;
                    println!("order {}", order[0]);
                }
                Err(ReceiveError::Closed) => is_over = true,
                Err(error) => return Err(error.into()),
            },
            () = tokio::time::sleep(Duration::from_secs(60)) => return Err("no order".into()),
        }
    }
    let alarm = alarms.receive().await?;
    println!("alarm: {}", String::from_utf8_lossy(&alarm));
    assert_eq!(order_count, 3);
    publisher.join().map_err(|_| "the publisher panicked")?;
    Ok(())
}
