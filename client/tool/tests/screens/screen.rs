// Compares text for a terminal with the file that holds the expected text.

/// Compares `text` with `tests/screens/NAME.txt`. With `HALPROF_SCREENS=write` in the environment
/// it writes the file instead; `git diff` then shows what has changed.
/// No line is wider than `columns`.
pub(crate) fn assert_screen(name: &str, text: &str, columns: usize) {
    assert_width(name, text, columns);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("HALPROF_SCREENS").is_some_and(|what| what == "write") {
        std::fs::write(&file, text).expect("written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    // Git may check text out with Windows' line ends.
    let expected = expected.replace("\r\n", "\n");
    assert!(text == expected, "{}\nis not what is printed now:\n{text}", file.display());
}

pub(crate) fn assert_width(what: &str, text: &str, columns: usize) {
    let long = text.lines().find(|line| line.chars().count() > columns);
    assert_eq!(long, None, "{what}: wider than {columns}");
}

/// The widths for which screens are kept.
pub(crate) const WIDTHS: [usize; 3] = [60, 80, 120];
