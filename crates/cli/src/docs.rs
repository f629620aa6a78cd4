//! `linerate completions` and `linerate man`: generated from the arguments themselves, and from `docs/reference/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Command, Parser};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::output;

/// Arguments of `completions`.
#[derive(Debug, Parser)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Parser)]
pub(crate) struct ManArgs {
    /// Write every page into this folder, which is made, for `man -l FOLDER/PAGE` or MANPATH
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print this page instead, such as linerate-copy or linerate-urls
    #[arg(long, value_name = "NAME", conflicts_with = "folder")]
    page: Option<String>,
}

/// A page that belongs to no command.
#[derive(Debug, Clone, Copy)]
struct Topic {
    name: &'static str,
    /// The section of the manual.
    section: &'static str,
    about: &'static str,
    /// Markdown.
    text: &'static str,
}

const TOPICS: [Topic; 2] = [
    Topic {
        name: "linerate-urls",
        section: "7",
        about: "how volumes are named",
        text: include_str!("../../../docs/reference/urls.md"),
    },
    Topic {
        name: "linerate-configuration",
        section: "5",
        about: "the configuration file of linerate serve",
        text: include_str!("../../../docs/reference/configuration.md"),
    },
];

/// Prints completions for `program`.
pub(crate) fn completions(args: &CompletionsArgs, mut program: Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "linerate", &mut text);
    output::bytes(&text)
}

/// Writes or prints the manual pages of `program`.
pub(crate) fn man(args: &ManArgs, program: Command) -> Result<()> {
    let pages = pages(program)?;
    match (&args.folder, &args.page) {
        (Some(folder), _) => write(folder, &pages),
        (None, Some(name)) => {
            let named = |(file, _): &&(String, Vec<u8>)| {
                file == name || file.rsplit_once('.').is_some_and(|(stem, _)| stem == name)
            };
            match pages.iter().find(named) {
                Some((_, text)) => output::bytes(text),
                None => bail!("there is no page {name:?}: linerate man lists them"),
            }
        }
        (None, None) => pages.iter().try_for_each(|(file, _)| output::line(file)),
    }
}

fn write(folder: &Path, pages: &[(String, Vec<u8>)]) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for (file, text) in pages {
        let path = folder.join(file);
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// Every page: its file's name and its text.
fn pages(program: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    let mut command = program.disable_help_subcommand(true);
    command.build();
    of_command(&command, "linerate", &mut pages)?;
    for topic in TOPICS {
        pages.push((format!("{}.{}", topic.name, topic.section), roff(&topic).into_bytes()));
    }
    Ok(pages)
}

/// The pages of a command and of those under it.
fn of_command(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut text = Vec::new();
    let see = if name == "linerate" {
        "linerate\\-urls(7), linerate\\-configuration(5)"
    } else {
        "linerate(1), linerate\\-urls(7)"
    };
    let page = Man::new(command.clone());
    page.title(name.to_owned()).render(&mut text).context("a manual page cannot be made")?;
    text.extend_from_slice(format!(".SH \"SEE ALSO\"\n{see}\n").as_bytes());
    pages.push((format!("{name}.1"), text));
    for under in command.get_subcommands().filter(|under| !under.is_hide_set()) {
        of_command(under, &format!("{name}-{}", under.get_name()), pages)?;
    }
    Ok(())
}

/// A page of the reference as a manual page. Of Markdown it knows what those pages use: headings, tables, lists, code.
fn roff(topic: &Topic) -> String {
    let Topic { name, section, about, text } = topic;
    let mut page = format!(".TH {name} {section}\n.SH NAME\n{name} \\- {about}\n.SH DESCRIPTION\n");
    let mut code = false;
    for line in text.lines().skip_while(|line| line.starts_with('#') || line.is_empty()) {
        let fence = line.starts_with("```");
        code ^= fence;
        let text = match (fence, code) {
            (true, true) => ".PP\n.nf\n".to_owned(),
            (true, false) => ".fi\n".to_owned(),
            (false, true) => format!("{}\n", escaped(line)),
            (false, false) => prose(line),
        };
        page.push_str(&text);
    }
    page
}

/// A line that is no code.
fn prose(line: &str) -> String {
    let text = |text: &str| escaped(&plain(text));
    if let Some(heading) = line.strip_prefix("## ") {
        format!(".SH \"{}\"\n", text(heading))
    } else if let Some(heading) = line.strip_prefix("### ") {
        format!(".SS \"{}\"\n", text(heading))
    } else if let Some(row) = line.strip_prefix("| ") {
        table_row(row)
    } else if let Some(item) = line.strip_prefix("* ") {
        format!(".IP \\(bu 2\n{}\n", text(item))
    } else if line.is_empty() {
        ".PP\n".to_owned()
    } else if line.starts_with("|-") {
        String::new()
    } else {
        format!("{}\n", text(line))
    }
}

/// The first cell as a term, the others as its text.
fn table_row(row: &str) -> String {
    let mut cells = row.trim_end_matches('|').split(" | ").map(str::trim);
    let term = escaped(&plain(cells.next().unwrap_or_default()));
    let rest: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
    format!(".TP\n\\fB{term}\\fR\n{}\n", escaped(&plain(&rest.join("; "))))
}

/// Markdown without its marks.
fn plain(text: &str) -> String {
    text.replace(['`', '*'], "").replace("\\|", "|")
}

/// Text that roff takes as it stands.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
