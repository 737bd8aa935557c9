//! Whether this CPU can run the program.
//!
//! The build targets x86-64-v3; on an older CPU it would end in an illegal instruction. The daemon
//! asks here first and says it in a sentence.

/// The features of x86-64-v3 (System V ABI, AMD64 supplement, §3.1.1) beyond x86-64-v2, by the
/// kernel's names for them. LZCNT is `abm` there. A CPU that has these has those of v2.
const X86_64_V3: [&str; 9] =
    ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"];

/// The features of x86-64-v3 that the first CPU of `cpuinfo` lacks, by the names that the kernel
/// gives them. `cpuinfo` is the text of `/proc/cpuinfo`; if it has no list of flags, all are
/// missing.
#[must_use]
pub fn missing_features(cpuinfo: &str) -> Vec<&'static str> {
    let flags = cpuinfo.lines().find_map(|line| {
        let (key, flags) = line.split_once(':')?;
        (key.trim() == "flags").then_some(flags)
    });
    let has = |feature: &str| flags.unwrap_or("").split_whitespace().any(|flag| flag == feature);
    X86_64_V3.into_iter().filter(|feature| !has(feature)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cpu_lacks_nothing() {
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu avx movbe f16c xsave abm bmi1 avx2 bmi2 fma\n\
                       bugs\t\t: spectre_v1\n";
        assert_eq!(missing_features(cpuinfo), [""; 0]);
    }

    #[test]
    fn an_old_cpu_lacks_features_and_similar_names_do_not_count() {
        // Ivy Bridge has AVX and F16C, but neither AVX2 nor BMI.
        let cpuinfo = "flags : fpu avx f16c xsave xsaveopt avx512_bmi1 fma4 movbe\nflags : avx2\n";
        assert_eq!(missing_features(cpuinfo), ["avx2", "bmi1", "bmi2", "fma", "abm"]);
    }

    #[test]
    fn a_text_without_flags_lacks_everything() {
        for text in ["", "flags", "model name : flags avx2", "Features : fp asimd"] {
            assert_eq!(missing_features(text).len(), X86_64_V3.len(), "{text}");
        }
    }
}
