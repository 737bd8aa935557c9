//! Completion scripts for the shells, made of the command lines' own definitions.

use clap::{Command, ValueEnum};
use clap_complete::aot;

/// The shells that there are scripts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Fish.
    Fish,
}

/// The script that completes the words of `command`, a program's definition, in `shell`.
#[must_use]
pub fn script(shell: Shell, command: Command) -> String {
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    aot::generate(shell, &mut { command }, name, &mut script);
    // Made of names and help texts, which are UTF-8.
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command as Process, Stdio};

    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Arguments, lodestoned};

    fn commands() -> [Command; 2] {
        [Arguments::command(), lodestoned::Arguments::command()]
    }

    /// Runs `bash` on a text; its standard output, if it ends well.
    fn bash(arguments: &[&str], text: &str) -> Option<String> {
        let mut bash = Process::new("bash")
            .arg("--norc")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        bash.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = bash.wait_with_output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn bash_can_read_its_script() {
        assert_eq!(bash(&["-n"], "if then"), None, "it would say so");
        for command in commands() {
            assert!(bash(&["-n"], &script(Shell::Bash, command)).is_some());
        }
    }

    /// What bash offers for the last of these words.
    fn offered(words: &[&str]) -> Vec<String> {
        let text = format!(
            "{}\nCOMP_WORDS=({}); COMP_CWORD={}\n_{} {} '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            script(Shell::Bash, Arguments::command()),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words[0],
            words[0],
            words[words.len() - 1],
            words[words.len() - 2],
        );
        bash(&[], &text).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_offers_verbs_nouns_and_options() {
        assert_eq!(offered(&["lodectl", "stat"]), ["status"]);
        assert_eq!(offered(&["lodectl", "show", "dro"]), ["drops"]);
        assert_eq!(offered(&["lodectl", "backend", "dr"]), ["drain"]);
        assert_eq!(offered(&["lodectl", "show", "drops", "--al"]), ["--all"]);
        assert_eq!(offered(&["lodectl", "show", "drops", "--js"]), ["--json"]);
    }

    #[test]
    fn every_verb_is_in_every_script() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            for command in commands() {
                let text = script(shell, command.clone());
                assert!(text.contains(command.get_name()), "{shell:?}");
                for verb in command.get_subcommands() {
                    assert!(text.contains(verb.get_name()), "{shell:?} {}", verb.get_name());
                }
            }
        }
    }

    #[test]
    fn each_shell_gets_its_own_language() {
        let command = Arguments::command;
        assert!(script(Shell::Bash, command()).contains("complete -F _lodectl"));
        assert!(script(Shell::Zsh, command()).starts_with("#compdef lodectl"));
        assert!(script(Shell::Fish, command()).contains("complete -c lodectl"));
    }
}
