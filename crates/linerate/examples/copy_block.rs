//! Reads one range of a volume and writes it into a file: `copy_block URL OFFSET LENGTH FILE`. Shows the calls that wait.

use linerate::{Client, ClientConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, offset, length, file] = arguments.as_slice() else {
        return Err("usage: copy_block URL OFFSET LENGTH FILE".into());
    };
    let disk = Client::start(&ClientConfig::default())?.open(&url.parse()?)?.blocking();
    let mut data = vec![0; length.parse()?];
    disk.read_at(offset.parse()?, &mut data)?;
    std::fs::write(file, data)?;
    Ok(())
}
