//! Writes the JSON schemas to a folder: `documents DIR`. `cargo xtask documents` runs it.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(PathBuf::new, PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for (name, schema) in halprof::documents::schemas() {
        std::fs::write(folder.join(format!("{name}.json")), format!("{schema:#}\n"))?;
    }
    Ok(())
}
