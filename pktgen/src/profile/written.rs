//! A profile as it is written.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;

use super::{Expect, Kind, Life, Mode};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub mode: Mode,
    pub packets: Option<u64>,
    pub duration: Option<String>,
    pub seed: Option<u64>,
    pub window: Option<u32>,
    pub rate: Option<Rate>,
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    pub replay: Option<Replay>,
    #[serde(default)]
    pub change: Vec<Change>,
    pub search: Option<Search>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub packets_per_second: f64,
    pub shape: Option<Shape>,
    pub burst: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    Constant,
    Poisson,
    Bursts,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    pub share: Option<f64>,
    pub kind: Kind,
    pub source: IpNet,
    pub destination: IpAddr,
    pub port: u16,
    pub flows: u32,
    pub set: Option<Set>,
    pub exponent: Option<f64>,
    pub size: Option<Size>,
    pub life: Option<Life>,
    pub expect: Option<Expect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    Grid,
    Random,
    Zipf,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Size {
    One(u16),
    Several(Vec<u16>),
    Named(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub at_packet: u64,
    pub when: Option<When>,
    pub method: String,
    #[serde(default)]
    pub params: toml::Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    Drained,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    pub file: PathBuf,
    pub destination: IpAddr,
    pub port: Option<u16>,
    pub source: Option<IpNet>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    pub trial: Option<String>,
    pub highest: Option<f64>,
    pub precision: Option<f64>,
    pub partial_drop: Option<f64>,
    #[serde(default)]
    pub flows: Vec<u32>,
    #[serde(default)]
    pub loads: Vec<f64>,
}
