//! Manual pages, made of the command lines' own definitions: one a program and one a verb.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

/// A page and where `man` looks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// As in `man1/lodectl-show-services.1`, below a directory of `MANPATH`.
    pub path: PathBuf,
    /// The page in the language of man(7).
    pub text: String,
}

/// Why the pages are not there.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; choose a directory that you may write to", path = path.display())]
pub struct ManError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the kernel said.
    pub source: io::Error,
}

/// The pages of `lodectl` and all its verbs (section 1: `command` is its definition) and of the
/// daemon (section 8). The first one is `lodectl`'s own.
#[must_use]
pub fn pages(lodectl: Command, lodestoned: &Command) -> Vec<Page> {
    let mut pages = Vec::new();
    add(&built(lodectl), 1, LODECTL, &mut pages);
    add(lodestoned, 8, LODESTONED, &mut pages);
    pages
}

/// The page of `lodectl` alone, for `lodectl man > page; man ./page`.
#[must_use]
pub fn overview(lodectl: Command) -> String {
    text(&built(lodectl), "lodectl", 1, LODECTL)
}

/// The definition with its verbs' full names. No page for `help`: each verb has its own.
fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

/// Writes pages below `directory`, such as `/usr/local/share/man`. Returns how many.
///
/// # Errors
///
/// [`ManError`] with the first file that cannot be written.
pub fn write(directory: &Path, pages: &[Page]) -> Result<usize, ManError> {
    for Page { path, text } in pages {
        let path = directory.join(path);
        let failed = |source| ManError { path: path.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(directory)).map_err(failed)?;
        fs::write(&path, text).map_err(failed)?;
    }
    Ok(pages.len())
}

/// What the definitions do not have: the sections at the end of `lodectl`'s page. A verb's page
/// shares them.
const LODECTL: &str = r#".SH "EXIT STATUS"
0: done. 1: refused or failed, with a sentence on standard error that says the mend. 2: wrong usage.
.SH FILES
.TP
.I /run/lodestone/admin.sock
The daemon's admin socket, unless its configuration says otherwise.
.SH ENVIRONMENT
.TP
.B NO_COLOR
If set and not empty, nothing is coloured.
.SH "SEE ALSO"
.BR lodectl (1),
.BR lodestoned (8)
"#;

const LODESTONED: &str = r#".SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
Ends the daemon.
.TP
.B SIGHUP
Reads the configuration again, as
.B lodectl reload
does.
.SH "EXIT STATUS"
0: it was told to end. 1: it could not start or go on, with a sentence on standard error.
.SH FILES
.TP
.I /etc/lodestone/lodestone.toml
The configuration.
.SH ENVIRONMENT
.TP
.BR NOTIFY_SOCKET ", " WATCHDOG_USEC
Given by
.BR systemd (1):
where to say that packets are forwarded, and how often to say that every worker polls.
.SH "SEE ALSO"
.BR lodectl (1),
.BR systemd.service (5)
"#;

/// The page of `command` and those of its verbs.
fn add(command: &Command, section: u8, end: &str, pages: &mut Vec<Page>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let text = text(command, &name, section, end);
    pages.push(Page { path: format!("man{section}/{name}.{section}").into(), text });
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        add(verb, section, end, pages);
    }
}

fn text(command: &Command, name: &str, section: u8, end: &str) -> String {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .section(section.to_string())
        // No date: equal sources give equal pages.
        .source(concat!("Lodestone ", env!("CARGO_PKG_VERSION")))
        .manual("Lodestone");
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render(&mut text);
    String::from_utf8_lossy(&text).into_owned() + end
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Arguments, lodestoned};

    fn all() -> Vec<Page> {
        pages(Arguments::command(), &lodestoned::Arguments::command())
    }

    /// A verb of one's own for every leaf of the definitions.
    fn count(command: &Command) -> usize {
        1 + command.get_subcommands().map(count).sum::<usize>()
    }

    #[test]
    fn every_verb_has_a_page_under_its_name() {
        let pages = all();
        assert_eq!(pages.len(), count(&Arguments::command()) + 1);
        for path in [
            "man1/lodectl.1",
            "man1/lodectl-status.1",
            "man1/lodectl-show-drops.1",
            "man1/lodectl-backend-drain.1",
            "man8/lodestoned.8",
        ] {
            assert!(pages.iter().any(|page| page.path == Path::new(path)), "no {path}");
        }
        assert_eq!(pages[0].path, Path::new("man1/lodectl.1"));
    }

    #[test]
    fn a_page_has_its_title_its_sections_and_nothing_unknown() {
        // man(7), and what clap_mangen's preamble defines for itself.
        const KNOWN: [&str; 13] =
            ["SH", "TP", "IP", "RS", "RE", "PP", "B", "I", "BR", "TH", "ie", "el", "br"];
        for Page { path, text } in all() {
            let name = path.file_stem().unwrap().to_str().unwrap().to_uppercase();
            let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
            assert!(title.contains(&name) && title.contains("Lodestone"), "{path:?}: {title}");
            for section in ["NAME", "SYNOPSIS", "OPTIONS", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
                let heading = format!(".SH {section}\n");
                assert_eq!(text.matches(&heading).count(), 1, "{path:?}: {section}");
            }
            for line in text.lines().filter_map(|line| line.strip_prefix('.')) {
                let request = line.split(' ').next().unwrap();
                assert!(KNOWN.contains(&request), "{path:?}: .{line}");
            }
        }
    }

    #[test]
    fn pages_are_written_where_man_looks() {
        let directory = tempfile::tempdir().unwrap();
        let pages = all();
        assert_eq!(write(directory.path(), &pages).unwrap(), pages.len());
        let page = fs::read_to_string(directory.path().join("man8/lodestoned.8")).unwrap();
        assert!(page.contains("SIGHUP"));
        // Again, over the old ones.
        assert_eq!(write(directory.path(), &pages).unwrap(), pages.len());
        let error = write(&directory.path().join("man8/lodestoned.8"), &pages).unwrap_err();
        assert!(error.to_string().contains("choose a directory"), "{error}");
    }

    #[test]
    fn the_overview_is_the_first_page() {
        let overview = overview(Arguments::command());
        assert_eq!(overview, all()[0].text);
    }
}
