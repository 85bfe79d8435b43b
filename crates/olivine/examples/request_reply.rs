//! Questions on one channel, answers on another. The tag of an answer names its question.

use olivine::{Outgoing, Publisher, ReceiveError, Subscriber};
use std::error::Error;
use std::thread;

fn answer() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut questions = Subscriber::open("inproc://questions")?;
    let mut answers = Publisher::open("inproc://answers?subscribers=1")?;
    let mut count = 0;
    loop {
        match questions.receive() {
            Ok(question) => {
                let text = String::from_utf8_lossy(&question).to_uppercase();
                answers.publish(Outgoing::new(text.as_bytes()).tag(question.tag()))?;
                count += 1;
            }
            Err(ReceiveError::Closed) => return Ok(count),
            Err(error) => return Err(error.into()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut answers = Subscriber::open("inproc://answers")?;
    // The first message waits until a subscriber can answer.
    let mut questions = Publisher::open("inproc://questions?subscribers=1")?;
    let answering = thread::spawn(answer);

    for (number, text) in (1..).zip(["who", "what", "why"]) {
        questions.publish(Outgoing::new(text.as_bytes()).tag(number))?;
        let reply = answers.receive()?;
        assert_eq!(reply.tag(), number);
        assert_eq!(&*reply, text.to_uppercase().as_bytes());
        println!("{text}? {}", String::from_utf8_lossy(&reply));
    }
    questions.close()?;
    let count = answering
        .join()
        .map_err(|_| "the answering thread panicked")?;
    assert_eq!(count.map_err(|error| error.to_string())?, 3);
    Ok(())
}
