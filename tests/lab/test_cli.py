"""`lodectl` against a daemon that works: words for people, JSON for programs."""

import os

from support import LabCase, Refused

READING = (("status",), ("show", "services"), ("show", "backends"), ("show", "workers"),
           ("show", "drops"), ("show", "conntrack"))


class Cli(LabCase):
    """Every verb that reads, and `check-config`."""

    def test_every_reading_verb_has_text_and_json(self):
        self.ask_until_all_served(4)
        for words in READING:
            with self.subTest(words=words):
                self.assertTrue(self.appliance.lodectl(*words).strip())
                self.assertIsInstance(self.appliance.show(*words), dict)

    def test_counters_count(self):
        def entries():
            return {shard["family"]: shard["new"] + shard["unverified"]
                    for shard in self.appliance.show("show", "conntrack")["shards"]}

        before, flows = entries(), self.flows()
        for family in (4, 6):
            for _ in range(20):
                self.curl(family)
        after = entries()
        self.assertEqual({family: after[family] - before[family] for family in after},
                         {"ipv4": 20, "ipv6": 20})
        self.assertEqual(self.flows() - flows, 40)

    def flows(self):
        """Flows for which a backend was chosen."""
        return sum(row["new_flows"] for row in self.appliance.backends())

    def test_check_config(self):
        self.appliance.lodectl("check-config", self.appliance.config)
        broken = self.lab.path("broken.toml")
        with open(self.appliance.config, encoding="utf-8") as file:
            text = file.read()
        with open(broken, "w", encoding="utf-8") as file:
            file.write(text.replace("rise = 2", "rise = 0").replace("arp = true", "arp = 7"))
        with self.assertRaises(Refused) as refused:
            self.appliance.lodectl("check-config", broken)
        for key in ("rise", "arp"):
            self.assertIn(key, str(refused.exception))

    def test_no_daemon_is_a_sentence(self):
        absent = self.lab.path("absent.sock")
        with self.assertRaises(Refused) as refused:
            self.appliance.lodectl_at(absent, "status")
        self.assertIn(absent, str(refused.exception))
        self.assertFalse(os.path.exists(absent))
