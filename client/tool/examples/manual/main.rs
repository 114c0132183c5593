//! Writes the manual pages to a folder: `manual DIR`. `cargo xtask package` runs it.

mod pages;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(PathBuf::new, PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for (name, text) in pages::pages()? {
        std::fs::write(folder.join(format!("{name}.1")), text)?;
    }
    Ok(())
}
